// What the page knows of the run: the present, curves of all that was, events, plans. All of it is bounded.

import { decode, fetchFrame, type Frame } from "./frames";

export interface Start {
  name: string;
  runtime: string;
  space: [number, number, number, number];
  geographic: boolean;
  evaluators: string[];
  tasks: string[];
  checkpoints: boolean;
  max_pending: number;
}

export interface Happening {
  what: "move" | "fault" | "back" | "recovered" | "hotspot";
  t: number;
  epoch: number;
  kind?: string;
  from?: number;
  to?: number;
  queries?: number;
  why?: string;
  version?: number;
  serial?: number;
  task?: string;
  lost?: number;
  ms?: number;
  x?: number;
  y?: number;
  radius?: number;
  strength?: number;
  seconds?: number;
}

export interface Area {
  box: [number, number, number, number];
  workers: number[];
  textual: boolean;
}

export interface Plan {
  serial: number;
  version: number;
  kind: string;
  t: number;
  areas: Area[];
  total: number;
}

/** Objects and results a second, and how well it went. */
export interface Rate {
  objects: number;
  results: number;
  latency: number;
  efficiency: number;
}

/** One point of all curves. */
export interface Point extends Rate {
  t: number;
  pending: number;
  /** The smallest and the largest load by the mean, and each of them where they are few. */
  least: number | null;
  most: number | null;
  own: Float32Array;
}

/** What the map shows: the present, or a moment of the past. */
export interface Shown {
  t: number;
  costs: Float32Array;
  objects: Uint16Array;
  alerts: Uint16Array;
  serial: number | null;
  rate: Rate;
}

const MOST_POINTS = 4000;
const MOST_EVENTS = 2000;
const MOST_PLANS = 64;
const SMOOTH_SECONDS = 1.2;
/** Evaluators that have a line each. */
export const MOST_LINES = 24;

export class Run {
  state = "connecting";
  error: string | null = null;
  connected = false;
  start: Start | null = null;
  offers = { hotspot: false, kill: false };
  tick: any = null;
  points: Point[] = [];
  events: Happening[] = [];
  happened = 0;
  moved = 0;
  load = new Float32Array(0);
  rate: Rate = { objects: 0, results: 0, latency: 0, efficiency: 1 };
  private plans = new Map<number, Plan>();
  onFrame: (kind: string, frame: Frame) => void = () => {};
  onChange: () => void = () => {};

  connect(): void {
    const socket = new WebSocket(`${location.protocol === "https:" ? "wss" : "ws"}://${location.host}/view/live`);
    socket.binaryType = "arraybuffer";
    socket.onmessage = (message) => this.take(decode(message.data as ArrayBuffer));
    socket.onopen = () => {
      this.connected = true;
      this.onChange();
    };
    socket.onclose = () => {
      this.connected = false;
      this.onChange();
      setTimeout(() => this.connect(), 1500);
    };
  }

  private take(frame: Frame): void {
    const { header, columns } = frame;
    if (header.frame === "hello") this.hello(header, columns);
    else if (header.frame === "offers") this.offers = header;
    else if (header.frame === "start") this.begin(header);
    else if (header.frame === "plan") this.keep(planOf(frame));
    else if (header.frame === "state") [this.state, this.error] = [header.state, header.error];
    else if (header.frame === "tick") this.advance(header, columns);
    this.onFrame(header.frame, frame);
    this.onChange();
  }

  private begin(header: any): void {
    this.start = header;
    this.load = new Float32Array(header.evaluators.length);
  }

  private hello(header: any, columns: Frame["columns"]): void {
    [this.state, this.error, this.tick] = [header.state, header.error, header.tick];
    if (header.start !== null) this.begin(header.start);
    this.events = header.events;
    this.happened = header.happened;
    this.moved = this.events.reduce((sum, one) => sum + (one.queries ?? 0), 0);
    const width = header.evaluators as number;
    const [t, objects, results, efficiency, latency, pending] = ["t", "objects", "results", "efficiency", "latency_ms", "pending"].map(
      (name) => columns[`curve_${name}`] as Float32Array,
    );
    const costs = columns.curve_costs as Float32Array;
    this.load = new Float32Array(Math.max(width, this.load.length));
    this.rate = { objects: 0, results: 0, latency: 0, efficiency: 1 };
    this.points = Array.from(t, (at, i) => {
      const smooth = smoothing(i ? at - t[i - 1] : SMOOTH_SECONDS);
      for (let worker = 0; worker < width; worker++) this.load[worker] = smooth(this.load[worker], costs[i * width + worker]);
      this.rate.objects = smooth(this.rate.objects, objects[i]);
      this.rate.results = smooth(this.rate.results, results[i]);
      this.rate.efficiency = smooth(this.rate.efficiency, efficiency[i]);
      this.rate.latency = smooth(this.rate.latency, latency[i]);
      return { t: at, ...this.rate, latency: latency[i], pending: pending[i], ...shared(this.load) };
    });
  }

  private advance(header: any, columns: Frame["columns"]): void {
    this.tick = header;
    this.state = header.state;
    this.error = null;
    for (const event of header.events as Happening[]) {
      this.events.push(event);
      this.moved += event.queries ?? 0;
    }
    this.happened += header.events.length + header.omitted;
    if (this.events.length > MOST_EVENTS) this.events.splice(0, this.events.length - MOST_EVENTS);
    const span = header.span as number;
    if (span <= 0) return;
    const costs = columns.costs as Float32Array;
    const smooth = smoothing(span);
    for (let i = 0; i < this.load.length; i++) this.load[i] = smooth(this.load[i], costs[i] / span);
    this.rate.objects = smooth(this.rate.objects, header.objects / span);
    this.rate.results = smooth(this.rate.results, header.results / span);
    if (header.latency_ms !== null) this.rate.latency = smooth(this.rate.latency, header.latency_ms);
    if (header.efficiency !== null) this.rate.efficiency = smooth(this.rate.efficiency, header.efficiency);
    const latency = header.latency_ms_max ?? 0;
    this.points.push({ t: header.t, ...this.rate, latency, pending: header.pending, ...shared(this.load) });
    if (this.points.length > MOST_POINTS) {
      const half = MOST_POINTS / 2; // the older half becomes coarser
      this.points = [...this.points.slice(0, half).filter((_, i) => i % 2 === 0), ...this.points.slice(half)];
    }
  }

  private keep(plan: Plan): void {
    this.plans.set(plan.serial, plan);
    if (this.plans.size > MOST_PLANS) this.plans.delete(this.plans.keys().next().value as number);
  }

  /** A plan by its number: at once where it is here, later where it has to be fetched. */
  async plan(serial: number | null): Promise<Plan | null> {
    if (serial === null || serial === undefined) return null;
    const here = this.plans.get(serial);
    if (here !== undefined) return here;
    const frame = await fetchFrame(`/view/plan/${serial}`);
    if (frame === null) return null;
    const plan = planOf(frame);
    this.keep(plan);
    return plan;
  }

  async at(t: number): Promise<Shown | null> {
    const frame = await fetchFrame(`/view/at?t=${t.toFixed(3)}`);
    if (frame === null) return null;
    const { header, columns } = frame;
    const span = Math.max(header.span, 1e-3);
    const rate = { objects: header.objects / span, results: header.results / span, latency: header.latency_ms, efficiency: header.efficiency };
    const costs = (columns.costs as Float32Array).map((cost) => cost / span);
    return {
      t: header.t, costs, objects: columns.objects as Uint16Array, alerts: columns.alerts as Uint16Array,
      serial: header.serial, rate,
    };
  }

  /** What the curves say of a moment: a single one is too short to say how many come in a second. */
  rateAt(t: number): Rate | null {
    let [low, high] = [0, this.points.length];
    while (low < high) {
      const middle = (low + high) >> 1;
      if (this.points[middle].t < t) low = middle + 1;
      else high = middle;
    }
    return this.points[Math.min(low, this.points.length - 1)] ?? null;
  }

  movedUntil(t: number): number {
    return this.events.reduce((sum, one) => sum + (one.t <= t ? (one.queries ?? 0) : 0), 0);
  }

  get now(): number {
    return this.tick?.t ?? 0;
  }
}

/** Loads by their mean. */
function shared(load: Float32Array): Pick<Point, "least" | "most" | "own"> {
  const mean = load.reduce((sum, cost) => sum + cost, 0) / Math.max(load.length, 1);
  if (!(mean > 0)) return { least: null, most: null, own: new Float32Array(0) };
  const [low, high] = [load.reduce((a, b) => Math.min(a, b), Infinity), load.reduce((a, b) => Math.max(a, b), 0)];
  return { least: low / mean, most: high / mean, own: load.length <= MOST_LINES ? load.map((cost) => cost / mean) : new Float32Array(0) };
}

/** How what is known changes by something new, after so many seconds. */
function smoothing(span: number): (old: number, fresh: number) => number {
  const keep = Math.exp(-span / SMOOTH_SECONDS);
  return (old, fresh) => old * keep + fresh * (1 - keep);
}

function planOf({ header, columns }: Frame): Plan {
  const { box, off, worker, textual } = columns;
  const areas: Area[] = [];
  for (let i = 0; i + 1 < off.length; i++) {
    areas.push({
      box: [box[4 * i], box[4 * i + 1], box[4 * i + 2], box[4 * i + 3]],
      workers: Array.from(worker.subarray(off[i], off[i + 1])),
      textual: textual[i] === 1,
    });
  }
  return { serial: header.serial, version: header.version, kind: header.kind, t: header.t, areas, total: header.areas };
}

/** Send what somebody wants done; return what is wrong with it, or nothing. */
export async function act(path: string, body: unknown): Promise<string | null> {
  try {
    const answer = await fetch(path, { method: "POST", headers: { "content-type": "application/json" }, body: JSON.stringify(body) });
    return answer.ok ? null : ((await answer.json()).detail as string);
  } catch {
    return "the run cannot be reached";
  }
}
