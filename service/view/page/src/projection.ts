// From the space of the run to pixels. Degrees are drawn by Miller's projection: rectangles stay rectangles, and poles are finite.

export type Box = [number, number, number, number];

const RADIANS = Math.PI / 180;

function miller(latitude: number): number {
  return (1.25 / RADIANS) * Math.log(Math.tan(Math.PI / 4 + 0.4 * latitude * RADIANS));
}

function unmiller(y: number): number {
  return (2.5 * (Math.atan(Math.exp(0.8 * y * RADIANS)) - Math.PI / 4)) / RADIANS;
}

export class Projection {
  /** Pixels a unit, and the unit at the middle of the canvas. */
  scale = 1;
  private middle: [number, number] = [0, 0];
  private aim: { scale: number; middle: [number, number] } | null = null;
  width = 1;
  height = 1;

  constructor(
    public space: Box,
    public geographic: boolean,
  ) {
    this.middle = [(space[0] + space[2]) / 2, (this.up(space[1]) + this.up(space[3])) / 2];
  }

  private up(y: number): number {
    return this.geographic ? miller(Math.min(Math.max(y, -89.9), 89.9)) : y;
  }

  x(x: number): number {
    return (x - this.middle[0]) * this.scale + this.width / 2;
  }

  y(y: number): number {
    return (this.middle[1] - this.up(y)) * this.scale + this.height / 2;
  }

  back(px: number, py: number): [number, number] {
    const up = this.middle[1] - (py - this.height / 2) / this.scale;
    return [(px - this.width / 2) / this.scale + this.middle[0], this.geographic ? unmiller(up) : up];
  }

  /** Show a box, gliding there. */
  show(box: Box, margin = 0.08, at_once = false): void {
    const [low, high] = [this.up(box[1]), this.up(box[3])];
    const wide = Math.max(box[2] - box[0], 1e-9);
    const tall = Math.max(high - low, 1e-9);
    const scale = Math.min(this.width / wide, this.height / tall) * (1 - 2 * margin);
    this.aim = { scale, middle: [(box[0] + box[2]) / 2, (low + high) / 2] };
    if (at_once) this.glide(1);
  }

  /** Go a part of the way to where the view is to be; tell whether it moved. */
  glide(part: number): boolean {
    if (this.aim === null) return false;
    const { scale, middle } = this.aim;
    this.scale *= (scale / this.scale) ** part;
    this.middle = [this.middle[0] + (middle[0] - this.middle[0]) * part, this.middle[1] + (middle[1] - this.middle[1]) * part];
    if (part === 1 || Math.abs(Math.log(scale / this.scale)) < 2e-3) {
      this.scale = scale;
      this.middle = [...middle];
      this.aim = null;
    }
    return true;
  }

  pan(dx: number, dy: number): void {
    this.aim = null;
    this.middle = [this.middle[0] - dx / this.scale, this.middle[1] + dy / this.scale];
  }

  zoom(factor: number, px: number, py: number): void {
    this.aim = null;
    const smallest = 0.5 * Math.min(this.width / (this.space[2] - this.space[0]), this.height / (this.up(this.space[3]) - this.up(this.space[1])));
    const next = Math.min(Math.max(this.scale * factor, smallest), smallest * 20000);
    const by = next / this.scale;
    this.middle = [
      this.middle[0] + ((px - this.width / 2) / this.scale) * (1 - 1 / by),
      this.middle[1] - ((py - this.height / 2) / this.scale) * (1 - 1 / by),
    ];
    this.scale = next;
  }
}
