// Curves of the run over one shared time axis, with what happened marked across all of them.

import uPlot from "uplot";
import { MOST_LINES, type Happening, type Point, type Run } from "./run";
import { loadColour, type Theme } from "./theme";

type Row = (number | null)[];
const HEIGHT = 64;
const SYNC = "run";

interface Chart {
  title: string;
  series: { label: string; stroke: string; width?: number; fill?: string; show?: (value: number) => string }[];
  bands?: uPlot.Band[];
  rows: (points: Point[]) => Row[];
  range?: (low: number, high: number) => [number, number];
}

const short = new Intl.NumberFormat("en", { notation: "compact", maximumFractionDigits: 1 });

export class Curves {
  private plots: uPlot[] = [];
  private built = "";
  private shown: Point[] = [];
  seconds = 60;
  /** The moment that is shown; null is the present. */
  cursor: number | null = null;
  onPick: (t: number) => void = () => {};

  constructor(
    private root: HTMLElement,
    private run: Run,
    private theme: Theme,
  ) {}

  setTheme(theme: Theme): void {
    this.theme = theme;
    this.built = "";
  }

  /** The first and the last second on the axis. */
  get span(): [number, number] {
    const last = Math.max(this.run.now, 1);
    const first = this.seconds > 0 ? Math.max(last - this.seconds, 0) : 0;
    return [first, this.seconds > 0 && last < this.seconds ? Math.min(this.seconds, Math.max(last, 20)) : last];
  }

  private charts(): Chart[] {
    const { theme } = this;
    const lines = (this.run.start?.evaluators.length ?? 0) <= MOST_LINES ? (this.run.start?.evaluators.length ?? 0) : 0;
    const loads = (points: Point[]): Row[] => [
      points.map((point) => point.most),
      points.map((point) => point.least),
      ...Array.from({ length: lines }, (_, worker) => points.map(({ own }) => own[worker] ?? null)),
    ];
    const times = (value: number) => `${value.toFixed(2)}×`;
    return [
      {
        title: "load of each evaluator, by the mean",
        series: [
          { label: "most", stroke: loadColour(3, 1), width: 1.6, show: times },
          { label: "least", stroke: loadColour(0.4, 1), width: 1.2, show: times },
          ...Array.from({ length: lines }, (_, i) => ({ label: `${i}`, stroke: theme.edge, width: 0.8, show: times })),
        ],
        bands: [{ series: [1, 2], fill: loadColour(1, theme.dark ? 0.16 : 0.2) }],
        rows: loads,
        range: (_low, high) => [0, Math.max(high * 1.05, 2)],
      },
      {
        title: "objects and alerts a second",
        series: [
          { label: "objects", stroke: theme.object, fill: loadColour(0.5, 0.14), show: (v) => short.format(v) },
          { label: "alerts", stroke: theme.alert, show: (v) => short.format(v) },
        ],
        rows: (points) => [points.map((point) => point.objects), points.map((point) => point.results)],
        range: (_low, high) => [0, Math.max(high * 1.08, 1)],
      },
      {
        title: "efficiency",
        series: [{ label: "efficiency", stroke: loadColour(1, 1), fill: loadColour(1, 0.14), show: (v) => v.toFixed(2) }],
        rows: (points) => [points.map((point) => point.efficiency)],
        range: () => [0, 1],
      },
      {
        title: "latency, ms (slowest epoch); epochs pending",
        series: [
          { label: "latency", stroke: theme.move, show: (v) => `${v < 10 ? v.toFixed(1) : v.toFixed(0)} ms` },
          { label: "pending", stroke: theme.quiet, width: 1, show: (v) => v.toFixed(0) },
        ],
        rows: (points) => [points.map((point) => point.latency), points.map((point) => point.pending)],
        range: (_low, high) => [0, Math.max(high * 1.1, 10)],
      },
    ];
  }

  private build(): void {
    const wide = this.root.clientWidth;
    const charts = this.charts();
    const columns = wide >= 1100 ? 4 : wide >= 560 ? 2 : 1;
    const key = `${wide} ${columns} ${this.run.start?.evaluators.length} ${this.theme.dark}`;
    if (key === this.built || wide < 40) return;
    this.built = key;
    for (const plot of this.plots) plot.destroy();
    this.root.replaceChildren();
    this.root.style.gridTemplateColumns = `repeat(${columns}, minmax(0, 1fr))`;
    this.plots = charts.map((chart) => {
      const holder = document.createElement("figure");
      const title = document.createElement("figcaption");
      title.textContent = chart.title;
      holder.append(title);
      this.root.append(holder);
      const axis = { stroke: this.theme.quiet, grid: { stroke: this.theme.grid, width: 1 }, ticks: { show: false }, font: "10px system-ui" };
      return new uPlot(
        {
          width: Math.floor((wide - 10 * (columns - 1)) / columns),
          height: HEIGHT + 34,
          padding: [4, 6, 0, 0],
          cursor: { sync: { key: SYNC }, points: { size: 5 }, drag: { x: false, y: false } },
          legend: { show: false },
          scales: { x: { time: false, range: () => this.span }, y: { range: (_u, low, high) => chart.range?.(low ?? 0, high ?? 1) ?? [low, high] } },
          axes: [
            { ...axis, size: 18, gap: 2, values: (_u, ticks) => ticks.map(clock) },
            { ...axis, size: 38, gap: 3, values: (_u, ticks) => ticks.map((v) => short.format(v)) },
          ],
          series: [{}, ...chart.series.map((one) => ({ label: one.label, stroke: one.stroke, fill: one.fill, width: one.width ?? 1.5, points: { show: false } }))],
          bands: chart.bands,
          hooks: {
            draw: [(plot) => this.mark(plot)],
            setCursor: [(plot) => this.tell(plot, chart, title)],
            ready: [
              (plot) =>
                plot.over.addEventListener("click", () => {
                  const { left } = plot.cursor;
                  if (left !== undefined && left >= 0) this.onPick(plot.posToVal(left, "x"));
                }),
            ],
          },
        },
        [[], ...chart.series.map(() => [])] as unknown as uPlot.AlignedData,
        holder,
      );
    });
  }

  private tell(plot: uPlot, chart: Chart, title: HTMLElement): void {
    const { idx } = plot.cursor;
    const values =
      idx === null || idx === undefined
        ? ""
        : chart.series
            .slice(0, 2)
            .map((one, i) => [one, plot.data[i + 1][idx]] as const)
            .filter(([, value]) => value !== null && value !== undefined)
            .map(([one, value]) => `${one.label} ${one.show?.(value as number) ?? value}`)
            .join("   ");
    title.textContent = values ? `${values}   at ${clock(plot.data[0][idx as number])}` : chart.title;
  }

  private mark(plot: uPlot): void {
    const { ctx, bbox } = plot;
    const [first, last] = this.span;
    const ratio = devicePixelRatio || 1;
    ctx.save();
    const line = (t: number, colour: string, width: number, part = 1) => {
      const x = plot.valToPos(t, "x", true);
      ctx.strokeStyle = colour;
      ctx.lineWidth = width * ratio;
      ctx.beginPath();
      ctx.moveTo(x, bbox.top + bbox.height * (1 - part));
      ctx.lineTo(x, bbox.top + bbox.height);
      ctx.stroke();
    };
    let serial: number | undefined;
    for (const event of this.run.events) {
      if (event.t < first || event.t > last) continue;
      if (event.what === "move" && event.serial === serial) continue;
      serial = event.serial;
      line(event.t, markColour(event, this.theme), event.what === "move" ? 1.5 : 2, event.what === "move" ? 0.12 : 1);
    }
    if (this.cursor !== null) line(this.cursor, this.theme.ink, 2);
    ctx.restore();
  }

  draw(): void {
    this.build();
    const [first, last] = this.span;
    const from = Math.max(lower(this.run.points, first) - 1, 0);
    this.shown = thinned(this.run.points.slice(from).filter((point) => point.t <= last + 1), 700);
    const charts = this.charts();
    const times = this.shown.map((point) => point.t);
    this.plots.forEach((plot, i) => {
      const rows = charts[i].rows(this.shown);
      while (rows.length < plot.series.length - 1) rows.push(times.map(() => null));
      plot.setData([times, ...rows.slice(0, plot.series.length - 1)] as uPlot.AlignedData, true);
    });
  }
}

export function markColour(event: Happening, theme: Theme): string {
  if (event.what === "move") return theme.move;
  if (event.what === "recovered") return loadColour(1, 1);
  return theme.fault;
}

export function clock(t: number): string {
  const whole = Math.floor(Math.max(t, 0));
  const [h, m, s] = [Math.floor(whole / 3600), Math.floor(whole / 60) % 60, whole % 60];
  const two = (value: number) => `${value}`.padStart(2, "0");
  return h ? `${h}:${two(m)}:${two(s)}` : `${m}:${two(s)}`;
}

function lower(points: Point[], t: number): number {
  let [low, high] = [0, points.length];
  while (low < high) {
    const middle = (low + high) >> 1;
    if (points[middle].t < t) low = middle + 1;
    else high = middle;
  }
  return low;
}

/** Every so many points: never more than so many, and always the same ones of the past. */
function thinned(points: Point[], most: number): Point[] {
  if (points.length <= most) return points;
  const step = 2 ** Math.ceil(Math.log2(points.length / most));
  return points.filter((_, i) => (points.length - 1 - i) % step === 0);
}
