// What happened, as marks above the slider of time: each kind has a shape of its own, so that nobody needs its colour.

import { markColour } from "./curves";
import type { Happening, Run } from "./run";
import type { Theme } from "./theme";

/** Where the slider's thumb stands at its ends. */
const INSET = 8;
const HIGH = 11;

export class Marks {
  private drawn = "";

  constructor(
    private canvas: HTMLCanvasElement,
    private run: Run,
    private theme: Theme,
  ) {}

  setTheme(theme: Theme): void {
    this.theme = theme;
    this.drawn = "";
  }

  draw([first, last]: [number, number]): void {
    const wide = this.canvas.clientWidth;
    const ratio = Math.min(devicePixelRatio || 1, 2);
    const key = `${wide} ${first.toFixed(1)} ${last.toFixed(1)} ${this.run.happened}`;
    if (key === this.drawn || wide < 40) return;
    this.drawn = key;
    this.canvas.width = Math.round(wide * ratio);
    this.canvas.height = HIGH * ratio;
    const context = this.canvas.getContext("2d");
    if (context === null) return;
    context.setTransform(ratio, 0, 0, ratio, 0, 0);
    const at = (event: Happening) => INSET + ((event.t - first) / Math.max(last - first, 1e-6)) * (wide - 2 * INSET);
    const shown = this.run.events.filter((event) => event.t >= first && event.t <= last);
    for (const event of shown) if (event.what === "move") tick(context, at(event), this.theme.move);
    for (const event of shown) if (event.what !== "move") mark(context, event, at(event), markColour(event, this.theme));
  }
}

function tick(context: CanvasRenderingContext2D, x: number, colour: string): void {
  context.fillStyle = colour;
  context.globalAlpha = 0.55;
  context.fillRect(x - 0.75, HIGH - 4, 1.5, 4);
  context.globalAlpha = 1;
}

/** A hotspot is a triangle, a fault a cross, a recovery a dot. What a fault causes at the same moment needs no mark. */
function mark(context: CanvasRenderingContext2D, event: Happening, x: number, colour: string): void {
  const y = HIGH / 2;
  context.fillStyle = context.strokeStyle = colour;
  context.lineWidth = 2.2;
  context.beginPath();
  if (event.what === "hotspot") {
    context.moveTo(x, 0.5);
    context.lineTo(x + 5, HIGH - 1);
    context.lineTo(x - 5, HIGH - 1);
    context.fill();
  } else if (event.what === "fault") {
    context.moveTo(x - 3.8, y - 3.8);
    context.lineTo(x + 3.8, y + 3.8);
    context.moveTo(x + 3.8, y - 3.8);
    context.lineTo(x - 3.8, y + 3.8);
    context.stroke();
  } else if (event.what === "recovered") {
    context.arc(x, y, 3.8, 0, 7);
    context.fill();
  }
}
