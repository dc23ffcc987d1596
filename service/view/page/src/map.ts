// The map: outlines, partitions by load, objects and alerts as they pass, moves as they happen. What is drawn a frame is bounded.

import { fetchFrame, type Column } from "./frames";
import { Projection, type Box } from "./projection";
import type { Area, Happening, Plan } from "./run";
import { heat, loadColour, loadFill, type Theme } from "./theme";

interface Tile {
  area: Area;
  box: Box;
  from: Box;
  /** By the mean; null where nobody works at all. */
  load: number | null;
  born: number;
  /** A shared area has others within it, whose names it would hide. */
  covered: boolean;
}
interface Arc {
  move: Happening;
  from: [number, number];
  to: [number, number];
  born: number;
}
interface Spark {
  x: number;
  y: number;
  at: number;
  alert: boolean;
}
interface Ring {
  x: number;
  y: number;
  born: number;
}
export interface Spot {
  x: number;
  y: number;
  radius: number;
  born: number;
  until: number;
  kind: string;
}

const MORPH_MS = 900;
const ARC_MS = 3200;
const RING_MS = 1100;
const MOST_RINGS = 160;
const MOST_SPARKS = 6000;
const MOST_ARCS = 9;
const FADE_MS = 50;
const SPRITE = 12;

export class MapView {
  projection: Projection;
  private base = document.createElement("canvas");
  private lines = document.createElement("canvas");
  private sprites: HTMLCanvasElement[] = [];
  private fadedAt = 0;
  private drawnAt = 0;
  /** How far loads come towards what they are, in one picture. */
  private settling = 1;
  /** Objects and alerts that are shown a second. */
  private crowd = [0, 0];
  private trail = document.createElement("canvas");
  private outlines: Record<string, Column> | null = null;
  private tiles: Tile[] = [];
  private arcs: Arc[] = [];
  /** Where something is written in this frame. */
  private written: Box[] = [];
  private rings: Ring[] = [];
  private sparks: Spark[] = [];
  private baseStale = true;
  private seen: [number, number][] = [];
  private ratio = 1;
  following = true;
  still = false;
  spots: Spot[] = [];
  load: Float32Array = new Float32Array(0);
  mean = 0;
  picked: Area | null = null;
  marked = new Set<number>();
  crosshair = false;
  plan: Plan | null = null;

  constructor(
    private canvas: HTMLCanvasElement,
    private theme: Theme,
    space: Box,
    private geographic: boolean,
  ) {
    this.projection = new Projection(space, geographic);
    this.resize();
    this.makeSprites();
    this.projection.show(space, 0.02, true);
    if (geographic) {
      void fetchFrame("/view/outlines").then((frame) => {
        this.outlines = frame?.columns ?? null;
        this.baseStale = true;
      });
    }
  }

  setTheme(theme: Theme): void {
    this.theme = theme;
    this.baseStale = true;
    this.makeSprites();
    this.clearTrail();
  }

  /** A soft dot for objects and one for alerts, drawn once. */
  private makeSprites(): void {
    this.sprites = [this.theme.object, this.theme.alert].map((colour) => {
      const sprite = document.createElement("canvas");
      sprite.width = sprite.height = SPRITE * 2;
      const context = sprite.getContext("2d");
      if (context === null) return sprite;
      const glow = context.createRadialGradient(SPRITE, SPRITE, 0, SPRITE, SPRITE, SPRITE);
      glow.addColorStop(0, colour);
      glow.addColorStop(0.22, colour);
      glow.addColorStop(0.32, `${colour}50`);
      glow.addColorStop(1, `${colour}00`);
      context.fillStyle = glow;
      context.fillRect(0, 0, SPRITE * 2, SPRITE * 2);
      return sprite;
    });
  }

  resize(): void {
    const box = this.canvas.getBoundingClientRect();
    this.ratio = Math.min(window.devicePixelRatio || 1, 2);
    for (const canvas of [this.canvas, this.base, this.lines, this.trail]) {
      canvas.width = Math.max(Math.round(box.width * this.ratio), 1);
      canvas.height = Math.max(Math.round(box.height * this.ratio), 1);
    }
    [this.projection.width, this.projection.height] = [box.width, box.height];
    this.baseStale = true;
  }

  moved(): void {
    this.baseStale = true;
    this.clearTrail();
  }

  private clearTrail(): void {
    this.trail.getContext("2d")?.clearRect(0, 0, this.trail.width, this.trail.height);
  }

  // --- what is shown -----------------------------------------------------------------------------------------------

  /** Show another plan; areas glide from where their evaluator had the most in common with them. */
  setPlan(plan: Plan | null, now: number, glide = true): void {
    const before = new Map<number, Tile[]>();
    for (const tile of this.tiles) {
      for (const worker of tile.area.workers) {
        if (!before.has(worker)) before.set(worker, []);
        before.get(worker)!.push(tile);
      }
    }
    this.plan = plan;
    this.tiles = (plan?.areas ?? []).map((area) => {
      const old = (before.get(area.workers[0]) ?? []).reduce<Tile | null>(
        (best, tile) => (best === null || common(tile.area.box, area.box) > common(best.area.box, area.box) ? tile : best),
        null,
      );
      const from = old !== null && glide ? this.boxNow(old, now) : area.box;
      return { area, box: area.box, from, load: old?.load ?? null, born: glide && old !== null && differ(old.area, area) ? now : -1e9, covered: false };
    });
    for (const tile of this.tiles) tile.covered = tile.area.workers.length > 1 && this.hides(tile);
    this.picked = null;
  }

  private boxNow(tile: Tile, now: number): Box {
    const part = Math.min((now - tile.born) / MORPH_MS, 1);
    if (part >= 1) return tile.box;
    const eased = 1 - (1 - part) ** 3;
    return tile.box.map((value, i) => tile.from[i] + (value - tile.from[i]) * eased) as Box;
  }

  /** Show places that objects or alerts were at; spread over the time until the next ones come. */
  pass(places: Uint16Array, alert: boolean, now: number, span: number): void {
    const [x0, y0, x1, y1] = this.projection.space;
    const n = places.length / 2;
    if (span > 0) this.crowd[alert ? 1 : 0] += (n / span - this.crowd[alert ? 1 : 0]) * 0.1;
    for (let i = 0; i < n; i++) {
      const x = x0 + (places[2 * i] / 65535) * (x1 - x0);
      const y = y0 + (places[2 * i + 1] / 65535) * (y1 - y0);
      this.sparks.push({ x, y, at: now + (i / n) * span * 1000, alert });
      if (!alert && i % 8 === 0) this.seen.push([x, y]);
    }
    if (this.sparks.length > MOST_SPARKS) this.sparks.splice(0, this.sparks.length - MOST_SPARKS);
    if (this.seen.length > 600) this.seen.splice(0, this.seen.length - 600);
  }

  /** Show a moment that is over: all of it at once, and it stays. */
  freeze(objects: Uint16Array, alerts: Uint16Array): void {
    this.sparks = [];
    this.rings = [];
    this.clearTrail();
    this.pass(objects, false, -1e6, 0);
    this.pass(alerts, true, -1e6, 0);
  }

  move(move: Happening, now: number): void {
    const [from, to] = [this.place(move.from ?? -1), this.place(move.to ?? -1)];
    if (from === null || to === null) return;
    this.arcs.push({ move, from, to, born: now });
    if (this.arcs.length > MOST_ARCS) {
      const least = this.arcs.reduce((a, b) => ((b.move.queries ?? 0) < (a.move.queries ?? 0) ? b : a));
      this.arcs = this.arcs.filter((arc) => arc !== least); // the largest say the most
    }
  }

  clearMoves(): void {
    this.arcs = [];
  }

  /** The middle of what is to be seen of an evaluator's largest area. */
  private place(worker: number): [number, number] | null {
    let best: [number, number] | null = null;
    let most = 0;
    for (const tile of this.tiles) {
      if (!tile.area.workers.includes(worker)) continue;
      const [l, t, r, b] = this.clipped(tile.box);
      if ((r - l) * (b - t) > most) [best, most] = [this.projection.back((l + r) / 2, (t + b) / 2), (r - l) * (b - t)];
    }
    return best;
  }

  private clipped(box: Box): Box {
    const { projection: p } = this;
    return [
      Math.max(p.x(box[0]), 0), Math.max(p.y(box[3]), 0), Math.min(p.x(box[2]), p.width), Math.min(p.y(box[1]), p.height),
    ];
  }

  areaAt(px: number, py: number): Area | null {
    const [x, y] = this.projection.back(px, py);
    const inside = this.tiles.filter(({ box }) => x >= box[0] && x <= box[2] && y >= box[1] && y <= box[3]);
    inside.sort((a, b) => size(a.box) - size(b.box));
    return inside[0]?.area ?? null;
  }

  ratioOf(workers: number[]): number | null {
    if (!workers.length || !(this.mean > 0)) return null;
    return workers.reduce((sum, worker) => sum + (this.load[worker] ?? 0), 0) / workers.length / this.mean;
  }

  /** Where nearly all objects are. */
  fit(at_once = false): void {
    if (this.seen.length < 20) {
      this.projection.show(this.projection.space, 0.02, at_once);
      return;
    }
    const of = (axis: 0 | 1) => this.seen.map((place) => place[axis]).sort((a, b) => a - b);
    const [xs, ys] = [of(0), of(1)];
    const cut = (values: number[], share: number) => values[Math.min(Math.floor(values.length * share), values.length - 1)];
    const box: Box = [cut(xs, 0.06), cut(ys, 0.06), cut(xs, 0.94), cut(ys, 0.94)];
    const most = size(box) > 0.35 * size(this.projection.space); // then it is nearer to see all
    this.projection.show(most ? this.projection.space : box, most ? 0.03 : 0.13, at_once);
  }

  get samples(): number {
    return this.seen.length;
  }

  // --- drawing -----------------------------------------------------------------------------------------------------

  draw(now: number): void {
    const part = (rate: number) => 1 - (1 - rate) ** Math.min(Math.max(now - this.drawnAt, 0) / 16.7, 8); // the same pace at any rate of pictures
    this.settling = part(0.08);
    const glide = part(0.12);
    this.drawnAt = now;
    if (this.projection.glide(this.still ? 1 : glide)) this.moved();
    if (this.baseStale) this.drawBase();
    const context = this.canvas.getContext("2d");
    if (context === null) return;
    const { width, height } = this.projection;
    context.setTransform(1, 0, 0, 1, 0, 0);
    context.drawImage(this.base, 0, 0);
    context.setTransform(this.ratio, 0, 0, this.ratio, 0, 0);
    this.drawTiles(context, now);
    this.drawTrail(now);
    context.setTransform(1, 0, 0, 1, 0, 0);
    context.drawImage(this.lines, 0, 0);
    context.globalCompositeOperation = this.theme.dark ? "lighter" : "source-over";
    context.drawImage(this.trail, 0, 0);
    context.globalCompositeOperation = "source-over";
    context.setTransform(this.ratio, 0, 0, this.ratio, 0, 0);
    this.drawRings(context, now);
    this.drawSpots(context, now);
    this.written = [];
    const counts = this.drawArcs(context, now);
    this.drawLabels(context, now);
    this.drawCounts(context, counts);
    if (this.crosshair) {
      context.strokeStyle = this.theme.fault;
      context.lineWidth = 1.5;
      context.beginPath();
      context.arc(width / 2, height / 2, 14, 0, 7);
      context.moveTo(width / 2 - 22, height / 2);
      context.lineTo(width / 2 + 22, height / 2);
      context.moveTo(width / 2, height / 2 - 22);
      context.lineTo(width / 2, height / 2 + 22);
      context.stroke();
    }
  }

  private drawBase(): void {
    this.baseStale = false;
    const context = this.base.getContext("2d");
    if (context === null) return;
    const { projection: p, theme } = this;
    context.setTransform(this.ratio, 0, 0, this.ratio, 0, 0);
    context.fillStyle = theme.sea;
    context.fillRect(0, 0, p.width, p.height);
    if (!this.geographic) {
      context.fillStyle = theme.land;
      const [l, t, r, b] = this.clipped(p.space);
      context.fillRect(l, t, r - l, b - t);
      return;
    }
    context.strokeStyle = theme.grid;
    context.lineWidth = 1;
    context.beginPath();
    const step = p.scale > 12 ? 5 : p.scale > 5 ? 10 : 30;
    for (let x = -180; x <= 180; x += step) {
      context.moveTo(p.x(x), 0);
      context.lineTo(p.x(x), p.height);
    }
    for (let y = -90; y <= 90; y += step) {
      context.moveTo(0, p.y(y));
      context.lineTo(p.width, p.y(y));
    }
    context.stroke();
    const lines = this.lines.getContext("2d");
    lines?.setTransform(this.ratio, 0, 0, this.ratio, 0, 0);
    lines?.clearRect(0, 0, p.width, p.height);
    if (this.outlines === null || lines === null) return;
    this.trace(context, "land", true);
    context.fillStyle = theme.land;
    context.fill("evenodd");
    this.trace(lines, "land", true);
    lines.strokeStyle = theme.coast;
    lines.lineWidth = 1;
    lines.stroke();
    this.trace(lines, "states", false);
    lines.strokeStyle = theme.state;
    lines.lineWidth = 0.8;
    lines.stroke();
  }

  private trace(context: CanvasRenderingContext2D, name: string, closed: boolean): void {
    const { projection: p } = this;
    const [off, at] = [this.outlines![`${name}_off`], this.outlines![`${name}_at`]];
    context.beginPath();
    for (let line = 0; line + 1 < off.length; line++) {
      for (let i = off[line]; i < off[line + 1]; i++) {
        const [x, y] = [p.x(at[2 * i]), p.y(at[2 * i + 1])];
        if (i === off[line]) context.moveTo(x, y);
        else context.lineTo(x, y);
      }
      if (closed) context.closePath();
    }
  }

  private drawTiles(context: CanvasRenderingContext2D, now: number): void {
    const { theme } = this;
    const many = this.tiles.length > 400;
    for (const tile of this.tiles) {
      const ratio = this.ratioOf(tile.area.workers);
      tile.load = ratio === null || tile.load === null || this.still ? ratio : tile.load + (ratio - tile.load) * this.settling;
      const box = this.boxNow(tile, now);
      const [l, t, r, b] = this.clipped(box);
      if (r <= l || b <= t) continue;
      if (tile.load !== null) {
        context.fillStyle = loadFill(tile.load);
        context.fillRect(l, t, r - l, b - t);
      }
      if (tile.area.textual && tile.area.workers.length > 1 && r - l > 8) this.hatch(context, l, t, r, b);
      const gliding = now - tile.born < MORPH_MS * 1.6;
      const marked = tile.area === this.picked || tile.area.workers.some((worker) => this.marked.has(worker));
      const own = tile.load === null ? theme.edge : loadColour(tile.load, many ? 0.6 : 0.95);
      context.strokeStyle = marked ? theme.ink : gliding && !many ? theme.move : own;
      const hot = tile.load === null ? 0 : Math.max(heat(tile.load) - 0.5, 0);
      context.lineWidth = marked ? 2.5 : many ? 0.7 + hot : gliding ? 1.8 : 1.4 + 5 * hot;
      const inset = context.lineWidth / 2;
      context.strokeRect(l + inset, t + inset, r - l - 2 * inset, b - t - 2 * inset);
    }
  }

  private hatch(context: CanvasRenderingContext2D, l: number, t: number, r: number, b: number): void {
    context.save();
    context.beginPath();
    context.rect(l, t, r - l, b - t);
    context.clip();
    context.strokeStyle = this.theme.edge;
    context.lineWidth = 0.8;
    context.beginPath();
    for (let x = l - (b - t); x < r; x += 9) {
      context.moveTo(x, b);
      context.lineTo(x + (b - t), t);
    }
    context.stroke();
    context.restore();
  }

  /** Objects fade where they were; only those that are due now are drawn. */
  private drawTrail(now: number): void {
    const context = this.trail.getContext("2d");
    if (context === null) return;
    context.setTransform(this.ratio, 0, 0, this.ratio, 0, 0);
    const { projection: p } = this;
    if (!this.still && now - this.fadedAt > FADE_MS) {
      this.fadedAt = now; // in large steps: what is faint would stay for ever by small ones
      context.globalCompositeOperation = "destination-out";
      context.fillStyle = "rgba(0,0,0,0.12)";
      context.fillRect(0, 0, p.width, p.height);
      context.globalCompositeOperation = "source-over";
    }
    const later: Spark[] = [];
    const fine = Math.min(Math.max(Math.sqrt(p.width * p.height) / 850, 0.5), 1.2); // on a small map, small dots
    const thin = this.crowd.map((rate) => Math.max(1 / Math.max(Math.sqrt(rate / 1500), 1), 0.3)); // so that partitions stay visible
    for (const spark of this.sparks) {
      if (spark.at > now) {
        later.push(spark);
        continue;
      }
      const [x, y] = [p.x(spark.x), p.y(spark.y)];
      if (x < -4 || y < -4 || x > p.width + 4 || y > p.height + 4) continue;
      const faint = this.still ? 1 : thin[spark.alert ? 1 : 0];
      const half = (spark.alert ? SPRITE / 2 : SPRITE / 2.6) * (0.3 + 0.7 * faint) * fine;
      context.globalAlpha = faint;
      context.drawImage(this.sprites[spark.alert ? 1 : 0], x - half, y - half, 2 * half, 2 * half);
      if (spark.alert && !this.still && this.rings.length < MOST_RINGS) this.rings.push({ x: spark.x, y: spark.y, born: spark.at });
    }
    context.globalAlpha = 1;
    this.sparks = later;
  }

  private drawRings(context: CanvasRenderingContext2D, now: number): void {
    const { projection: p, theme } = this;
    this.rings = this.rings.filter((ring) => now - ring.born < RING_MS);
    context.strokeStyle = theme.alert;
    context.lineWidth = 1.2;
    for (const ring of this.rings) {
      const part = (now - ring.born) / RING_MS;
      context.globalAlpha = 0.6 * (1 - part) ** 2;
      context.beginPath();
      context.arc(p.x(ring.x), p.y(ring.y), 2 + 15 * part, 0, 7);
      context.stroke();
    }
    context.globalAlpha = 1;
  }

  private drawSpots(context: CanvasRenderingContext2D, now: number): void {
    const { projection: p, theme } = this;
    this.spots = this.spots.filter((spot) => now < spot.until);
    for (const spot of this.spots) {
      const [x, y] = [p.x(spot.x), p.y(spot.y)];
      const reach = Math.max(spot.radius * p.scale, 16);
      context.strokeStyle = theme.fault;
      for (let i = 0; i < 3; i++) {
        const part = (now / 1800 + i / 3) % 1;
        context.globalAlpha = 0.7 * (1 - part);
        context.lineWidth = 2;
        context.beginPath();
        context.arc(x, y, spot.kind === "condense" ? reach * (1.8 - 1.6 * part) : reach * (0.3 + part), 0, 7);
        context.stroke();
      }
      context.globalAlpha = 1;
      const left = Math.max((spot.until - now) / (spot.until - spot.born), 0);
      context.lineWidth = 3;
      context.beginPath();
      context.arc(x, y, 10, -Math.PI / 2, -Math.PI / 2 + left * 2 * Math.PI);
      context.stroke();
    }
  }

  private drawLabels(context: CanvasRenderingContext2D, now: number): void {
    const { theme } = this;
    context.textAlign = "center";
    context.textBaseline = "middle";
    const [least, lowest] = this.tiles.length > 400 ? [84, 60] : [46, 34];
    for (const tile of this.tiles) {
      if (!tile.area.workers.length) continue;
      const [l, t, r, b] = this.clipped(this.boxNow(tile, now));
      if (r - l < least || b - t < lowest || tile.covered) continue;
      const [x, y] = [(l + r) / 2, (t + b) / 2];
      const names = tile.area.workers.length > 4 ? `${tile.area.workers.length} evaluators` : tile.area.workers.join(" · ");
      context.lineJoin = "round";
      context.strokeStyle = theme.halo;
      context.lineWidth = 4;
      context.font = "600 15px system-ui, sans-serif";
      context.fillStyle = theme.ink;
      context.strokeText(names, x, y - 7);
      context.fillText(names, x, y - 7);
      this.written.push([x - 30, y - 16, x + 30, y + 18]);
      if (tile.load === null) continue;
      context.font = "12px system-ui, sans-serif";
      const load = `${tile.load.toFixed(tile.load < 9.95 ? 1 : 0)}×`;
      context.strokeText(load, x, y + 10);
      context.fillText(load, x, y + 10);
    }
  }

  /** Write how many queries go along each arrow, the most first, where nothing else is written. */
  private drawCounts(context: CanvasRenderingContext2D, counts: { x: number; y: number; queries: number; alpha: number }[]): void {
    const { theme, projection: p } = this;
    context.font = "600 12px system-ui, sans-serif";
    context.textAlign = "center";
    context.textBaseline = "middle";
    context.lineJoin = "round";
    for (const { x, y, queries, alpha } of counts.sort((a, b) => b.queries - a.queries)) {
      const text = `${queries.toLocaleString("en")} ${queries === 1 ? "query" : "queries"}`;
      const half = context.measureText(text).width / 2 + 4;
      const box: Box = [x - half, y - 9, x + half, y + 9];
      if (box[0] < 0 || box[1] < 0 || box[2] > p.width || box[3] > p.height || this.written.some((other) => common(other, box) > 0)) continue;
      this.written.push(box);
      context.globalAlpha = alpha;
      context.strokeStyle = theme.halo;
      context.fillStyle = theme.move;
      context.lineWidth = 4;
      context.strokeText(text, x, y);
      context.fillText(text, x, y);
    }
    context.globalAlpha = 1;
  }

  private hides(tile: Tile): boolean {
    return this.tiles.length < 500 && this.tiles.some((other) => other !== tile && common(other.box, tile.box) >= size(other.box) * 0.999);
  }

  private drawArcs(context: CanvasRenderingContext2D, now: number): { x: number; y: number; queries: number; alpha: number }[] {
    const { projection: p, theme } = this;
    const counts = [];
    this.arcs = this.arcs.filter((arc) => this.still || now - arc.born < ARC_MS);
    for (const arc of this.arcs) {
      const age = this.still ? 0.5 : (now - arc.born) / ARC_MS;
      const [x0, y0, x1, y1] = [p.x(arc.from[0]), p.y(arc.from[1]), p.x(arc.to[0]), p.y(arc.to[1])];
      const far = Math.hypot(x1 - x0, y1 - y0);
      if (far < 4) continue;
      const [cx, cy] = [(x0 + x1) / 2 + (y1 - y0) * 0.22, (y0 + y1) / 2 - (x1 - x0) * 0.22];
      const queries = arc.move.queries ?? 0;
      context.globalAlpha = Math.min(1, age * 8, (1 - age) * 4);
      context.strokeStyle = theme.move;
      context.lineCap = "round";
      context.lineWidth = 1.2 + Math.min(Math.log2(queries + 1) / 2.6, 5);
      const path = new Path2D(`M${x0} ${y0}Q${cx} ${cy} ${x1} ${y1}`);
      const whole = context.globalAlpha;
      context.globalAlpha = whole * 0.35;
      context.stroke(path);
      context.globalAlpha = whole;
      context.setLineDash([10, 34]);
      context.lineDashOffset = -now / 9;
      context.stroke(path);
      context.setLineDash([]);
      const back = Math.atan2(y1 - cy, x1 - cx);
      context.fillStyle = theme.move;
      context.beginPath();
      context.moveTo(x1, y1);
      context.lineTo(x1 - 13 * Math.cos(back - 0.4), y1 - 13 * Math.sin(back - 0.4));
      context.lineTo(x1 - 13 * Math.cos(back + 0.4), y1 - 13 * Math.sin(back + 0.4));
      context.fill();
      if (far > 90 && queries > 0) counts.push({ x: (x0 + 2 * cx + x1) / 4, y: (y0 + 2 * cy + y1) / 4 - 10, queries, alpha: whole });
    }
    context.globalAlpha = 1;
    return counts;
  }
}

function differ(one: Area, other: Area): boolean {
  return one.box.some((value, i) => value !== other.box[i]) || one.workers.join() !== other.workers.join();
}

function size(box: Box): number {
  return (box[2] - box[0]) * (box[3] - box[1]);
}

function common(a: Box, b: Box): number {
  return Math.max(Math.min(a[2], b[2]) - Math.max(a[0], b[0]), 0) * Math.max(Math.min(a[3], b[3]) - Math.max(a[1], b[1]), 0);
}
