"""The k best among objects that move and change (Dong, Chen, Kitagawa: Continuous Search on Dynamic Spatial Keyword Objects).

An `ObjectTable` has the current states. A *finder* leads from new states to the queries whose lists they may enter; a
*refiller* keeps the lists, and fills those that have run short. `DynamicTopk` puts the three together, by two names.
"""
