/**
 * Counts the files and functions of the product that one change of an EndpointSlice passes, from the watch to the kernel's
 * tool and back to the observers of the report:
 *
 *     deno task bench:breadth [--list] [MODE…]
 *
 * Runs the proxy from source against a fake API server, and reads V8's precise coverage of the main isolate and of both
 * workers before and after the change. Needs root.
 */
import { sleep, systemClock } from "../../platform/clock.ts";
import { startFakeApiServer } from "../fakes/api_server.ts";
import { reservePort } from "../fakes/sockets.ts";
import { runIsolated } from "../isolated.ts";
import { serviceText, sliceText } from "./api_text.ts";

const ROOT = new URL("../../", import.meta.url).href;
const SERVICES = 100;
const START_MS = 8000;
const ATTACH_MS = 1000;
/** The first change runs what runs once, and some coincide with a timer: the one with the fewest functions counts. */
const CHANGES = 6;
const CHANGE_MS = 150;
/** Longer than the work after a change, such as the cleanup of conntrack entries. */
const APART_MS = 1300;

/** Coverage of one script, as the inspector reports it. */
interface ScriptCoverage {
  readonly url: string;
  readonly functions: readonly {
    readonly functionName: string;
    readonly ranges: readonly { readonly startOffset: number; readonly count: number }[];
  }[];
}

/** Returns a function that reads how often each function was called since the last call. */
async function startCoverage(port: number): Promise<() => Promise<ReadonlyMap<string, number>>> {
  const [{ webSocketDebuggerUrl }] = await (await fetch(`http://127.0.0.1:${port}/json`)).json();
  const socket = new WebSocket(webSocketDebuggerUrl);
  const waiting = new Map<number, (result: { readonly result: readonly ScriptCoverage[] }) => void>();
  /** Undefined is the main isolate. */
  const isolates: (string | undefined)[] = [undefined];
  let numbers = 0;
  socket.onmessage = ({ data }) => {
    const { id, method, params, result } = JSON.parse(data);
    if (method === "NodeWorker.attachedToWorker") isolates.push(params.sessionId);
    const answer = method === "NodeWorker.receivedMessageFromWorker" ? JSON.parse(params.message) : { id, result };
    waiting.get(answer.id)?.(answer.result);
  };
  await new Promise((resolve) => socket.onopen = resolve);
  const ask = (sessionId: string | undefined, method: string, params: object = {}) => {
    const { promise, resolve } = Promise.withResolvers<{ readonly result: readonly ScriptCoverage[] }>();
    const id = ++numbers, message = JSON.stringify({ id, method, params });
    waiting.set(id, resolve);
    const wrapped = { id: ++numbers, method: "NodeWorker.sendMessageToWorker", params: { sessionId, message } };
    socket.send(sessionId === undefined ? message : JSON.stringify(wrapped));
    return promise;
  };
  await ask(undefined, "NodeWorker.enable", { waitForDebuggerOnStart: false });
  await sleep(systemClock, ATTACH_MS);
  for (const isolate of isolates) {
    await ask(isolate, "Profiler.enable");
    await ask(isolate, "Profiler.startPreciseCoverage", { callCount: true, detailed: false });
  }
  return async () => {
    const calls = new Map<string, number>();
    for (const isolate of isolates) {
      const { result } = await ask(isolate, "Profiler.takePreciseCoverage");
      for (const { url, functions } of result.filter(({ url }) => url.startsWith(ROOT))) {
        for (const { functionName, ranges: [whole] } of functions) {
          const key = `${url.slice(ROOT.length)} ${functionName || "(anonymous)"} at ${whole!.startOffset}`;
          if (whole!.count > 0) calls.set(key, (calls.get(key) ?? 0) + whole!.count);
        }
      }
    }
    return calls;
  };
}

async function measure(mode: string, lists: boolean): Promise<void> {
  const api = startFakeApiServer(), port = reservePort();
  for (let i = 0; i < SERVICES; i++) api.apply(JSON.parse(serviceText(i)), JSON.parse(sliceText(i)));
  const proxy = new Deno.Command(Deno.execPath(), {
    args: [
      ...[
        "run",
        "--quiet",
        "--cached-only",
        "--no-check",
        "--allow-all",
        "--unstable-net",
        "--unstable-worker-options",
      ],
      ...[`--inspect=127.0.0.1:${port}`, new URL("main.ts", ROOT).pathname, "--proxy-mode", mode],
      ...["--master", api.url, "--hostname-override", "node", "--control-socket", "", "--state-directory", ""],
    ],
    stdout: "null",
    stderr: "null",
  }).spawn();
  try {
    await sleep(systemClock, START_MS);
    const takeCalls = await startCoverage(port);
    let fewest: ReadonlyMap<string, number> | undefined;
    for (let i = 0; i < CHANGES; i++) {
      await takeCalls();
      api.apply(JSON.parse(sliceText(i, 1)));
      await sleep(systemClock, CHANGE_MS);
      const calls = await takeCalls();
      if (i > 0 && (fewest === undefined || calls.size < fewest.size)) fewest = calls;
      await sleep(systemClock, APART_MS);
    }
    const called = [...fewest!].sort();
    const files = new Set(called.map(([key]) => key.split(" ")[0]));
    const calls = called.reduce((sum, [, count]) => sum + count, 0);
    console.log(`${mode}: ${files.size} files, ${called.length} functions, ${calls} calls`);
    if (lists) { for (const [key, count] of called) console.log(`  ${key}: ${count}`); }
  } finally {
    // With an inspector attached, it would wait at its end.
    proxy.kill("SIGKILL");
    await proxy.status;
    await api.close();
  }
}

async function main(args: readonly string[]): Promise<number> {
  const modes = args.filter((arg) => !arg.startsWith("-"));
  for (const mode of modes.length > 0 ? modes : ["nftables", "iptables"]) await measure(mode, args.includes("--list"));
  return 0;
}

if (import.meta.main) Deno.exit(await runIsolated(import.meta.url, main, ["main.ts"]));
