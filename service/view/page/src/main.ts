// The live view: wires the run, the map, the curves and the lists together.

import "uplot/dist/uPlot.min.css";
import "./style.css";
import { Curves, clock } from "./curves";
import { MapView } from "./map";
import { Marks } from "./marks";
import { because, described, element, Evaluators, Events, say } from "./panels";
import { popover } from "./popover";
import { act, Run, type Happening, type Shown } from "./run";
import { loadGradient, readTheme, recallTheme, toggleTheme } from "./theme";

const byId = <T extends HTMLElement>(id: string) => document.getElementById(id) as T;

recallTheme();
const calm = matchMedia("(prefers-reduced-motion: reduce)");
const run = new Run();
const canvas = byId<HTMLCanvasElement>("map");
let theme = readTheme();
let map: MapView | null = null;
/** What of the past is shown; null is the present. */
let past: Shown | null = null;
let playing = false;
/** How many pictures of the map were drawn. */
let pictures = 0;
let compared: { event: Happening; timer: number } | null = null;
let fitted = false;

const curves = new Curves(byId("curves"), run, theme);
const evaluators = new Evaluators(byId("evaluators"), byId("evaluators-count"), run);
const events = new Events(byId("events"), byId("events-count"), run);
const scrubber = byId<HTMLInputElement>("scrubber");
const marks = new Marks(byId<HTMLCanvasElement>("marks"), run, theme);
const here = popover(byId<HTMLFormElement>("popover"), run, (problem) => notice(problem, "problem"));
document.querySelector<HTMLElement>("#legend i")!.style.background = loadGradient;

// --- what comes ------------------------------------------------------------------------------------------------------

run.onFrame = (kind, frame) => {
  if ((kind === "start" || kind === "hello") && run.start !== null) {
    if (map === null) {
      map = new MapView(canvas, theme, run.start.space, run.start.geographic);
      byId("credits").hidden = !run.start.geographic;
    }
    byId("name").textContent = `${run.start.name}, on ${run.start.runtime === "ray" ? "Ray" : "one process"}`;
    document.title = `${run.start.name} · Waterspout, live`;
    if (kind === "hello") for (const event of run.events) spot(event);
  }
  if (map === null) return;
  const now = performance.now();
  if (kind === "plan" && past === null && compared === null) {
    void run.plan(frame.header.serial).then((plan) => map!.setPlan(plan, now, map!.plan !== null && !calm.matches));
  }
  if (kind === "tick" && past === null) {
    const { objects, alerts } = frame.columns;
    const span = Math.min(frame.header.span, 1);
    map.pass(objects as Uint16Array, false, now, span);
    map.pass(alerts as Uint16Array, true, now, span);
    for (const event of frame.header.events as Happening[]) {
      if (event.what === "move" && compared === null) map.move(event, now);
      spot(event);
    }
    if (!fitted && map.following && map.samples > 250) {
      fitted = true;
      map.fit();
    }
  }
};

function spot(event: Happening): void {
  if (event.what !== "hotspot" || map === null || event.x === undefined || event.y === undefined) return;
  const [age, life] = [(run.now - event.t) * 1000, (event.seconds ?? 20) * 1000];
  const born = performance.now() - age;
  if (age < life) map.spots.push({ x: event.x, y: event.y, radius: event.radius ?? 0, born, until: born + life, kind: event.kind ?? "" });
}

// --- what is said ----------------------------------------------------------------------------------------------------

const STATES: Record<string, string> = {
  connecting: "connecting", starting: "starting", running: "running", idle: "idle", recovering: "recovering", ended: "ended",
  stopped: "stopped", failed: "failed", working: "working",
};
let told: { text: string; kind: string; until: number } | null = null;

function notice(text: string, kind: string, ms = 6000): void {
  told = { text, kind, until: performance.now() + ms };
}

function sayState(): void {
  const state = !run.connected ? (run.state === "connecting" ? "connecting" : "not connected") : (STATES[run.state] ?? run.state);
  const pill = byId("state");
  if (pill.textContent !== state) pill.textContent = state;
  pill.dataset.state = run.connected ? run.state : "lost";
  const box = byId("notice");
  const now = performance.now();
  if (told !== null && now > told.until) told = null;
  let [text, kind, title] = ["", "", ""];
  if (!run.connected && run.state !== "connecting") [title, text, kind] = ["Not connected", "The server does not answer; this page tries again by itself. What was seen so far is still here.", "problem"];
  else if (run.state === "failed") [title, text, kind] = ["The run has failed", run.error ?? "It did not say why.", "failed"];
  else if (told !== null) [text, kind] = [told.text, told.kind];
  else if (run.state === "connecting" || run.state === "starting") [title, text, kind] = ["Starting", "The topology is being started. The first time on a machine its kernels are compiled, which takes a minute or more.", "quiet"];
  else if (run.state === "working") [title, text, kind] = ["Working", "Some objects take long. The first time on a machine kernels are compiled for them, which takes a minute or more.", "quiet"];
  else if (run.start !== null && run.tick !== null && run.tick.totals.objects === 0 && (run.state === "running" || run.state === "idle")) [title, text, kind] = ["Waiting for objects", "Nothing has arrived yet. What is published appears here as it comes.", "quiet"];
  else if (past === null && (run.state === "ended" || run.state === "stopped")) [title, text, kind] = [run.state === "ended" ? "The run has ended" : "The run was stopped", "Go back through it below.", "quiet"];
  else if (run.state === "recovering") [title, text, kind] = ["Recovering", "Something was lost. The run goes back to its newest checkpoint; no result is lost, none comes twice.", "quiet"];
  else if (run.state === "idle" && past === null) [title, text, kind] = ["Idle", "No objects are coming in at the moment.", "quiet"];
  const key = `${title}|${text}|${kind}`;
  if (box.dataset.key === key) return;
  box.dataset.key = key;
  box.hidden = !key.replaceAll("|", "");
  box.className = `card ${kind}`;
  box.setAttribute("role", kind === "failed" || kind === "problem" ? "alert" : "status");
  box.replaceChildren(...(title ? [element("strong", title)] : []), ...(text ? [element(kind === "failed" ? "pre" : "p", text)] : []));
}

function sayFigures(): void {
  if (run.tick === null) return;
  const rate = past?.rate ?? run.rate;
  const worked = (past?.costs ?? run.load).some((cost) => cost > 0);
  byId("f-objects").textContent = say.compact(rate.objects);
  byId("f-results").textContent = say.compact(rate.results);
  byId("f-latency").textContent = rate.objects < 0.05 ? "–" : rate.latency < 10 ? `${rate.latency.toFixed(1)} ms` : `${say.whole(rate.latency)} ms`;
  byId("f-efficiency").textContent = worked ? rate.efficiency.toFixed(2) : "–";
  byId("f-queries").textContent = say.whole(run.tick.totals.queries);
  byId("f-moved").textContent = say.compact(past === null ? run.moved : run.movedUntil(past.t));
}

let heard = { state: "", happened: 0 };

/** Say what is new: another state, and what happened; a screen reader that is told everything tells nothing. */
function announce(): void {
  if (run.tick === null) return;
  const fresh = run.happened - heard.happened;
  const news = fresh > 0 ? run.events.slice(-Math.min(fresh, run.events.length)) : [];
  const moves = news.filter((event) => event.what === "move");
  const said = news.filter((event) => event.what !== "move").map((event) => described([event]));
  if (moves.length) said.push(`${moves.length} moves of ${say.whole(moves.reduce((sum, move) => sum + (move.queries ?? 0), 0))} queries`);
  if (run.state !== heard.state) said.unshift(run.state);
  heard = { state: run.state, happened: run.happened };
  if (said.length) byId("spoken").textContent = said.join("; ");
}

/** Say how the run is. */
function speak(): void {
  if (run.tick === null || run.start === null) return;
  const [load, rate] = [past?.costs ?? run.load, past?.rate ?? run.rate];
  const mean = load.reduce((sum, value) => sum + value, 0) / Math.max(load.length, 1);
  const busiest = load.reduce((best, value, i) => (value > load[best] ? i : best), 0);
  const times = mean > 0 ? load[busiest] / mean : 0;
  byId("spoken").textContent =
    `${past === null ? run.state : `the run at ${clock(past.t)}`}: ${say.whole(rate.objects)} objects and ${say.whole(rate.results)} alerts a second, ` +
    `efficiency ${rate.efficiency.toFixed(2)}, ${run.start.evaluators[busiest] ?? "nobody"} works ${times.toFixed(1)} times the mean, ` +
    `${map?.plan?.total ?? 0} partitions`;
}

// --- time ------------------------------------------------------------------------------------------------------------

let asked = 0;
async function goTo(t: number, keepCompared = false): Promise<void> {
  if (!keepCompared) endCompare();
  const ask = ++asked;
  const found = await run.at(t);
  if (found === null || ask !== asked || map === null) return;
  past = { ...found, t, rate: run.rateAt(t) ?? found.rate };
  curves.cursor = t;
  map.still = true;
  map.clearMoves();
  map.freeze(found.objects, found.alerts);
  if (compared === null) {
    const plan = await run.plan(found.serial);
    if (ask === asked) map.setPlan(plan, performance.now(), false);
  }
  document.body.classList.add("past");
}

async function goLive(): Promise<void> {
  asked++;
  endCompare();
  past = null;
  playing = false;
  curves.cursor = null;
  document.body.classList.remove("past");
  if (map === null) return;
  map.still = false;
  map.clearMoves();
  map.moved();
  const plan = await run.plan(run.tick?.serial ?? null);
  if (past === null) map.setPlan(plan, performance.now(), false);
}

async function compare(event: Happening): Promise<void> {
  await goTo(event.t);
  if (event.what !== "move" || event.serial === undefined || map === null) return;
  const [before, after] = [await run.plan(event.serial - 1), await run.plan(event.serial)];
  const moves = run.events.filter((one) => one.what === "move" && one.version === event.version && one.t === event.t);
  if (before === null || after === null) return;
  const caption = byId("caption");
  events.chosen = event;
  let later = false;
  const turn = () => {
    if (map === null) return;
    later = !later;
    map.setPlan(later ? after : before, performance.now(), !calm.matches);
    map.clearMoves();
    for (const move of moves) map.move(move, performance.now());
    map.marked = new Set(moves.flatMap((move) => [move.from!, move.to!]));
    caption.replaceChildren(element("strong", later ? "after" : "before"), element("span", described(moves)), element("small", `${because(event)}, the policy says`));
  };
  map.setPlan(before, performance.now(), false);
  later = true;
  turn();
  caption.hidden = false;
  compared = { event, timer: window.setInterval(turn, 2200) };
}

function endCompare(): void {
  if (compared !== null) clearInterval(compared.timer);
  compared = null;
  events.chosen = null;
  byId("caption").hidden = true;
  map?.marked.clear();
}

function play(): void {
  playing = !playing;
  if (playing && past === null) void goTo(curves.span[0]);
}

scrubber.oninput = () => {
  const [first, last] = curves.span;
  const t = first + (Number(scrubber.value) / 1000) * (last - first);
  playing = false;
  if (t >= run.now - 0.05) void goLive();
  else void goTo(t);
};
curves.onPick = (t) => void (t >= run.now ? goLive() : goTo(t));
events.onPick = (event) => void compare(event);
evaluators.onMark = (worker) => {
  if (compared !== null || map === null) return;
  map.marked = new Set(worker === null ? [] : [worker]);
};
evaluators.onProblem = (problem) => notice(problem, "problem");
byId("moves").onclick = () => {
  events.moves = !events.moves;
  byId("moves").setAttribute("aria-pressed", `${events.moves}`);
  events.draw();
};
byId("live").onclick = () => void goLive();
byId("play").onclick = play;

// --- hands on the map ------------------------------------------------------------------------------------------------

let drag: { x: number; y: number; far: number } | null = null;
canvas.onpointerdown = (event) => {
  drag = { x: event.clientX, y: event.clientY, far: 0 };
  canvas.setPointerCapture(event.pointerId);
};
canvas.onpointermove = (event) => {
  if (drag === null || map === null) return;
  const [dx, dy] = [event.clientX - drag.x, event.clientY - drag.y];
  drag = { x: event.clientX, y: event.clientY, far: drag.far + Math.abs(dx) + Math.abs(dy) };
  if (drag.far < 4) return;
  map.following = false;
  map.projection.pan(dx, dy);
  changedView();
};
canvas.onpointerup = (event) => {
  const clicked = drag !== null && drag.far < 4;
  drag = null;
  if (!clicked || map === null) return;
  const box = canvas.getBoundingClientRect();
  openAt(event.clientX - box.left, event.clientY - box.top);
};
canvas.addEventListener(
  "wheel",
  (event) => {
    event.preventDefault();
    const box = canvas.getBoundingClientRect();
    zoom(Math.exp(-event.deltaY * 0.0015), event.clientX - box.left, event.clientY - box.top);
  },
  { passive: false },
);

function changedView(): void {
  if (map === null) return;
  here.close();
  map.moved();
  if (past !== null) map.freeze(past.objects, past.alerts);
}

function zoom(factor: number, x?: number, y?: number): void {
  if (map === null) return;
  map.following = false;
  map.projection.zoom(factor, x ?? map.projection.width / 2, y ?? map.projection.height / 2);
  changedView();
}

function openAt(px: number, py: number): void {
  if (map === null || run.start === null) return;
  const area = map.areaAt(px, py);
  map.picked = area;
  const [x, y] = map.projection.back(px, py);
  const [x0, y0, x1, y1] = run.start.space;
  if (x < x0 || x > x1 || y < y0 || y > y1) return;
  here.open({ px, py, x, y, area, ratio: area === null ? 1 : map.ratioOf(area.workers), wide: map.projection.width, high: map.projection.height, reach: 40 / map.projection.scale });
}

function middle(): void {
  if (map !== null) openAt(map.projection.width / 2, map.projection.height / 2);
}

byId("hotspot").onclick = middle;
byId("fit").onclick = () => {
  map?.fit();
  if (map !== null) map.following = true;
};
byId("world").onclick = () => {
  if (map === null || run.start === null) return;
  map.following = false;
  map.projection.show(run.start.space, 0.02);
};
byId("nearer").onclick = () => zoom(1.5);
byId("farther").onclick = () => zoom(1 / 1.5);
byId("theme").onclick = () => {
  toggleTheme();
  retheme();
};
byId("help").onclick = () => help();
for (const button of document.querySelectorAll<HTMLButtonElement>("#range button")) {
  button.onclick = () => {
    curves.seconds = Number(button.dataset.seconds);
    markRange();
  };
}
function markRange(): void {
  for (const button of document.querySelectorAll<HTMLButtonElement>("#range button")) {
    button.setAttribute("aria-pressed", `${Number(button.dataset.seconds) === curves.seconds}`);
  }
}
markRange();

function retheme(): void {
  theme = readTheme();
  map?.setTheme(theme);
  curves.setTheme(theme);
  marks.setTheme(theme);
  if (past !== null) map?.freeze(past.objects, past.alerts);
}
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", retheme);

function help(): void {
  const dialog = byId<HTMLDialogElement>("keys");
  const rows: [string, string][] = [
    ["← → ↑ ↓", "move the map, when it has the focus"], ["+ −", "nearer, farther"], ["F, W", "where objects are; the whole space"],
    ["H", "a hotspot in the middle of the map"], ["space", "play from the moment that is shown"], [", .", "a step back, a step on in time"],
    ["L", "back to the present"], ["S", "say how the run is, to a screen reader"], ["T", "dark or light"], ["Esc", "close what is open"],
  ];
  const list = element("dl");
  for (const [key, text] of rows) list.append(element("dt", key), element("dd", text));
  const about = element("p", "Partitions are coloured by the work of their evaluator, as a multiple of the mean; hatched ones are divided by keywords. Dots are a sample of the objects that pass, rings those that somebody is told of. An arrow is a move of queries from one evaluator to another: choose it in the list to see the plan before and after, and why the policy chose it.");
  const thanks = element("p", "Curves are drawn by uPlot (MIT licence).", "about");
  const close = element("button", "Close");
  close.onclick = () => dialog.close();
  dialog.replaceChildren(element("h2", "Keys and colours"), about, list, thanks, close);
  dialog.showModal();
}

addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey) return;
  const target = event.target as HTMLElement;
  if (target.matches("input, select, textarea, dialog *") && event.key !== "Escape") return;
  const far = 60;
  const pans: Record<string, [number, number]> = { ArrowLeft: [far, 0], ArrowRight: [-far, 0], ArrowUp: [0, far], ArrowDown: [0, -far] };
  const keys: Record<string, () => void> = {
    "+": () => zoom(1.3), "=": () => zoom(1.3), "-": () => zoom(1 / 1.3), f: () => byId("fit").click(), w: () => byId("world").click(),
    h: middle, l: () => void goLive(), s: speak, t: () => byId("theme").click(), "?": help,
    ",": () => void goTo((past?.t ?? run.now) - 1), ".": () => void goTo(Math.min((past?.t ?? run.now) + 1, run.now)),
    Escape: () => (here.isOpen ? here.close() : void goLive()),
  };
  if (target === canvas && event.key in pans && map !== null) {
    map.following = false;
    map.projection.pan(...pans[event.key]);
    changedView();
    event.preventDefault();
  } else if (event.key === " " && !target.matches("button")) {
    play();
    event.preventDefault();
  } else keys[event.key]?.();
});
canvas.onfocus = () => map !== null && (map.crosshair = canvas.matches(":focus-visible"));
canvas.onblur = () => map !== null && (map.crosshair = false);

// --- frame by frame --------------------------------------------------------------------------------------------------

new ResizeObserver(() => {
  map?.resize();
  map?.moved();
  if (map?.following && fitted) map.fit(true);
  if (past !== null) map?.freeze(past.objects, past.alerts);
}).observe(canvas);

/** Pictures are this far apart: 30 a second where the browser can, fewer where one takes it long, so that it stays at hand. */
const [LEAST_MS, MOST_MS] = [33, 100];
let [slowAt, spokenAt, playedAt, drawnAt, apart] = [0, 0, 0, 0, LEAST_MS];
function frame(now: number): void {
  if (map !== null && now - drawnAt >= apart - 4) {
    const late = now - drawnAt > apart + 25;
    apart = Math.min(Math.max(apart * (late ? 1.25 : 0.97), LEAST_MS), MOST_MS);
    drawnAt = now;
    pictures++;
    map.load = past?.costs ?? run.load;
    map.mean = map.load.reduce((sum, value) => sum + value, 0) / Math.max(map.load.length, 1);
    map.draw(now);
  }
  if (now - slowAt > 200) {
    slowAt = now;
    sayState();
    sayFigures();
    evaluators.draw(past?.costs ?? run.load);
    events.draw();
    curves.draw();
    marks.draw(curves.span);
    const [first, last] = curves.span;
    const t = past?.t ?? run.now;
    if (document.activeElement !== scrubber || past === null) scrubber.value = `${(1000 * (t - first)) / Math.max(last - first, 1e-6)}`;
    scrubber.setAttribute("aria-valuetext", past === null ? "the present" : `${clock(t)} of ${clock(run.now)}`);
    byId("clock").textContent = past === null ? clock(t) : `${clock(t)} of ${clock(run.now)}`;
    byId("live").setAttribute("aria-pressed", `${past === null}`);
    byId("play").textContent = playing ? "❚❚" : "▶";
    byId("hotspot").hidden = !run.offers.hotspot;
  }
  if (now - spokenAt > 10_000) {
    spokenAt = now;
    announce();
  }
  if (playing && past !== null && now - playedAt > 250) {
    playedAt = now;
    if (past.t + 0.5 >= run.now) void goLive();
    else void goTo(past.t + 0.5);
  }
  requestAnimationFrame(frame);
}

// What tests read: pixels say little of what a page means.
Object.assign(window, {
  waterspout: {
    run,
    act,
    goTo,
    goLive,
    get map() {
      return map;
    },
    get past() {
      return past;
    },
    get pictures() {
      return pictures;
    },
  },
});

run.connect();
requestAnimationFrame(frame);
