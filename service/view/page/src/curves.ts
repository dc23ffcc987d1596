// Curves of the run over one shared time axis, with what happened marked across all of them.

import uPlot from "uplot";
import { MOST_LINES, type Happening, type Point, type Run } from "./run";
import { loadColour, type Theme } from "./theme";

type Row = (number | null)[];
const SYNC = "run";

interface Series {
  label: string;
  stroke: string;
  width?: number;
  fill?: string;
  show?: (value: number) => string;
  /** It has an axis of its own, on the right: it is of another size. */
  right?: boolean;
  dash?: number[];
}
interface Chart {
  /** What stands behind the names of the series. */
  title: string;
  series: Series[];
  /** So many series, from the first one on, are named. */
  named: number;
  bands?: uPlot.Band[];
  rows: (points: Point[]) => Row[];
  range: (low: number, high: number) => [number, number];
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
    const over = ["ended", "stopped", "failed"].includes(this.run.state);
    return [first, this.seconds > 0 && last < this.seconds && !over ? Math.min(this.seconds, Math.max(last, 20)) : last];
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
        title: "load, in multiples of the mean",
        series: [
          { label: "busiest", stroke: loadColour(3, 1), width: 1.8, show: times },
          { label: "idlest", stroke: loadColour(0.35, 1), width: 1.4, dash: [4, 3], show: times },
          ...Array.from({ length: lines }, (_, i) => ({ label: `${i}`, stroke: theme.edge, width: 0.8, show: times })),
        ],
        named: 2,
        bands: [{ series: [1, 2], fill: loadColour(1, theme.dark ? 0.16 : 0.2) }],
        rows: loads,
        range: (_low, high) => [0, Math.max(high * 1.05, 2)],
      },
      {
        title: "a second",
        series: [
          { label: "objects", stroke: theme.object, fill: loadColour(0.5, 0.14), show: (v) => short.format(v) },
          { label: "alerts", stroke: theme.alert, right: true, show: (v) => short.format(v) },
        ],
        named: 2,
        rows: (points) => [points.map((point) => point.objects), points.map((point) => point.results)],
        range: (_low, high) => [0, Math.max(high * 1.08, 1)],
      },
      {
        title: "1: all work alike",
        series: [{ label: "efficiency", stroke: loadColour(1, 1), fill: loadColour(1, 0.14), show: (v) => v.toFixed(2) }],
        named: 1,
        rows: (points) => [points.map((point) => point.efficiency)],
        range: () => [0, 1],
      },
      {
        title: "",
        series: [
          { label: "slowest epoch, ms", stroke: theme.move, show: (v) => `${v < 10 ? v.toFixed(1) : v.toFixed(0)} ms` },
          { label: "epochs pending", stroke: theme.quiet, width: 1.2, dash: [4, 3], right: true, show: (v) => v.toFixed(0) },
        ],
        named: 2,
        rows: (points) => [points.map((point) => point.latency), points.map((point) => point.pending)],
        range: (_low, high) => [0, Math.max(high * 1.1, 10)],
      },
    ];
  }

  private build(): void {
    const wide = this.root.clientWidth;
    const charts = this.charts();
    const columns = wide >= 720 ? 4 : wide >= 520 ? 2 : 1;
    const high = innerHeight >= 1000 ? 120 : innerHeight >= 760 || columns < 4 ? 92 : 70;
    const key = `${wide} ${columns} ${high} ${this.run.start?.evaluators.length} ${this.theme.dark}`;
    if (key === this.built || wide < 40) return;
    this.built = key;
    for (const plot of this.plots) plot.destroy();
    this.root.replaceChildren();
    this.root.style.gridTemplateColumns = `repeat(${columns}, minmax(0, 1fr))`;
    const axis = { grid: { stroke: this.theme.grid, width: 1 }, ticks: { show: false }, font: "10px system-ui, sans-serif" };
    const values = (_u: uPlot, ticks: number[]) => ticks.map((v) => short.format(v));
    this.plots = charts.map((chart) => {
      const holder = document.createElement("figure");
      const title = document.createElement("figcaption");
      name(title, chart);
      holder.append(title);
      this.root.append(holder);
      const right = chart.series.find((one) => one.right);
      const range = (_u: uPlot, low: number | null, most: number | null) => chart.range(low ?? 0, most ?? 1);
      return new uPlot(
        {
          width: Math.floor((wide - 14 * (columns - 1)) / columns),
          height: high,
          padding: [7, right === undefined ? 12 : 0, 0, 0],
          cursor: { sync: { key: SYNC }, points: { size: 5 }, drag: { x: false, y: false } },
          legend: { show: false },
          scales: { x: { time: false, range: () => this.span }, y: { range }, ...(right === undefined ? {} : { right: { range } }) },
          axes: [
            { ...axis, stroke: this.theme.quiet, size: 22, gap: 6, space: 64, values: (_u, ticks) => ticks.map(clock) },
            { ...axis, stroke: right === undefined ? this.theme.quiet : chart.series[0].stroke, size: 36, gap: 3, space: 24, values },
            ...(right === undefined ? [] : [{ ...axis, scale: "right", side: 1 as const, stroke: right.stroke, grid: { show: false }, size: 36, gap: 3, space: 24, values }]),
          ],
          series: [
            {},
            ...chart.series.map((one) => ({
              label: one.label, stroke: one.stroke, fill: one.fill, width: one.width ?? 1.6, dash: one.dash, scale: one.right ? "right" : "y", points: { show: false },
            })),
          ],
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
    const values = idx === null || idx === undefined ? [] : chart.series.slice(0, chart.named).map((_, i) => plot.data[i + 1][idx] ?? null);
    name(title, chart, values, values.length ? `at ${clock(plot.data[0][idx as number])}` : chart.title);
  }

  private mark(plot: uPlot): void {
    const { ctx, bbox } = plot;
    const [first, last] = this.span;
    const ratio = devicePixelRatio || 1;
    ctx.save();
    ctx.setLineDash([]);
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

/** Name the series of a chart, each behind a mark of its colour, with their values at a moment where there are some. */
function name(title: HTMLElement, chart: Chart, values: (number | null)[] = [], behind = chart.title): void {
  const key = `${values.join()} ${behind}`;
  if (title.dataset.key === key) return;
  title.dataset.key = key;
  const parts = chart.series.slice(0, chart.named).map((one, i) => {
    const part = document.createElement("span");
    part.style.setProperty("--mark", one.stroke);
    if (one.dash) part.className = "dashed";
    const value = values[i];
    part.textContent = value === null || value === undefined ? one.label : `${one.label} ${one.show?.(value) ?? value}`;
    return part;
  });
  title.replaceChildren(...parts, behind);
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
