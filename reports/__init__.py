"""What one can send to a colleague: pictures of plans, alerts and runs, and pages that compare topologies.

Pictures (`plan_picture`, `alert_picture`, `load_picture`) are drawn over coastlines (`map_outlines`) where places are
longitudes and latitudes. `comparison` runs topologies on the same input; `page` puts what was found into one HTML file that
needs nothing else.
"""
