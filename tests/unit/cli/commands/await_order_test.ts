/** The wait of `install --now` and `status --wait`: attempts, and what they show. */
import assert from "node:assert/strict";
import { type ControlAnswers, serveControlSocket } from "../../../../answers/control/mod.ts";
import { listenOnControlSocket } from "../../../../answers/control/socket.ts";
import type { FamilyStatusDetails, NodeView, ProxyStatus } from "../../../../answers/status/mod.ts";
import { type BrowseQuestion, createAnswers, NotReadyError } from "../../../../answers/mod.ts";
import { awaitOrder, stoppedText } from "../../../../cli/commands/status.ts";
import { createProgress, startAndWait, waitingFor } from "../../../../cli/commands/install_start.ts";
import type { Service, ServiceState } from "../../../../cli/commands/service.ts";
import { systemClock } from "../../../../platform/clock.ts";
import { silentLogger } from "../../../../platform/log.ts";
import { fakeAnswerBasis, HERE } from "../../../fakes/answer_basis.ts";
import { createFakeClock, settled } from "../../../fakes/clock.ts";
import { node } from "../../../fakes/cluster_objects.ts";
import { fakeFamilyStatus, fakeSync, fakeView } from "../../../fakes/proxy_status.ts";
import { invoke } from "./invoke.ts";

const SYNC = fakeSync();

const family = (fields: Partial<FamilyStatusDetails> = {}) => fakeFamilyStatus({ syncs: [SYNC], ...fields });

const status = (fields: Partial<ProxyStatus> = {}) =>
  fakeView({
    families: [family(), family({ family: "IPv6", worker: { state: "resting" }, syncs: [] })],
    ...fields,
  });

const waiting = (fields: Partial<ProxyStatus>) => waitingFor({ status: status(fields), needy: undefined });

/** Serves answers on a control socket until the signal. */
async function serveAnswers(path: string, answers: object, signal: AbortSignal): Promise<{ ended: Promise<void> }> {
  const ended = serveControlSocket({
    listener: await listenOnControlSocket(path),
    answers: () => Promise.resolve(answers as ControlAnswers),
    clock: systemClock,
    logger: silentLogger,
    signal,
  });
  return { ended };
}

Deno.test("the wait ends with the first status that has everything in effect, and the exit status says whether it has", async () => {
  const folder = await Deno.makeTempDir();
  const path = `${folder}/control.sock`;
  const end = new AbortController();
  const starting = status({ families: [family({ worker: { state: "starting" }, syncs: [] })] });
  const statuses: (NodeView | Error)[] = [starting, starting, status()];
  const next = () => {
    const found = statuses.shift()!;
    return found instanceof Error ? Promise.reject(found) : Promise.resolve(found);
  };
  const answers = { ...createAnswers(fakeAnswerBasis([node(HERE)])), status: next };
  const seen: string[] = [];
  const onAttempt = async (found: Parameters<typeof waitingFor>[0]) => {
    seen.push(await waitingFor(found));
    return false;
  };
  const invocation = { clock: systemClock, signal: end.signal };
  try {
    assert.match(String(await awaitOrder(invocation, path, 0)), /there is no control socket at /);
    const { ended } = await serveAnswers(path, answers, end.signal);
    const report = await awaitOrder(invocation, path, 60_000, onAttempt);
    assert(typeof report !== "string");
    assert.equal(report.status.families[0]!.worker.state, "ready");
    assert.deepEqual(seen, ["IPv4: starting", "IPv4: starting"]);
    statuses.push(starting, starting);
    const given = await awaitOrder(invocation, path, 60_000, () => Promise.resolve(true));
    assert(typeof given !== "string");
    assert.equal(statuses.splice(0).length, 1, "the caller gave up after one attempt");

    statuses.push(new Error("busy"), status());
    assert.equal(typeof await awaitOrder(invocation, path, 60_000), "object", "an attempt that fails is repeated");
    statuses.push(new Error("busy"));
    await assert.rejects(awaitOrder(invocation, path, 0), /did not answer: 500/);

    const exitStatus = async (found: NodeView) => {
      statuses.push(found);
      return (await invoke(["status", `--control-socket=${path}`])).status;
    };
    assert.deepEqual([await exitStatus(status()), await exitStatus(starting)], [0, 1]);
    end.abort();
    await ended;
  } finally {
    end.abort();
    await Deno.remove(folder, { recursive: true });
  }
});

Deno.test("a proxy that has not read the cluster yet has a status without services; later, those that need attention", async () => {
  const folder = await Deno.makeTempDir(), path = `${folder}/control.sock`, end = new AbortController();
  const asked: BrowseQuestion[] = [];
  const basis = createAnswers(fakeAnswerBasis([node(HERE)]));
  let hasRead = false;
  const answers = {
    ...basis,
    status: () => Promise.resolve(status()),
    browse(question: BrowseQuestion) {
      asked.push(question);
      return hasRead ? basis.browse(question) : Promise.reject(new NotReadyError("not synced"));
    },
  };
  const { ended } = await serveAnswers(path, answers, end.signal);
  try {
    const ask = () => awaitOrder({ clock: systemClock, signal: end.signal }, path, 0);
    const early = await ask();
    assert.deepEqual(typeof early !== "string" && [early.status.inOrder, early.needy], [true, undefined]);
    hasRead = true;
    const late = await ask();
    assert.equal(typeof late !== "string" && late.needy?.page, 1);
    const { attention, order, page, pageSize, search } = asked.at(-1)!;
    assert.deepEqual([attention, order, page, pageSize, search], [true, "attention", 1, 20, ""]);
  } finally {
    end.abort();
    await ended;
    await Deno.remove(folder, { recursive: true });
  }
});

Deno.test("the wait names the API server first, then the family with its reason", async () => {
  const link = {
    server: "https://10.0.0.1",
    sinceMs: 7000,
    lastReceivedMs: undefined,
    lastErrorMs: undefined,
    retryAtMs: 12_000,
  };
  assert.equal(
    await waiting({ link: { ...link, state: "connecting", lastError: undefined } }),
    "API server or relay: connecting for 3 s",
  );
  assert.match(
    await waiting({ link: { ...link, state: "disconnected", lastError: "refused" } }),
    /^API server or relay: disconnected from https:\/\/10\.0\.0\.1 .*\(refused\)$/,
  );
  const unfit = (name: "IPv4" | "IPv6") =>
    family({ family: name, worker: { state: "unfit", reason: `no tool for ${name}`, unsupported: false } });
  assert.equal(await waiting({ families: [family(), unfit("IPv6")] }), "IPv6: cannot be served (no tool for IPv6)");
  assert.equal(
    await waiting({ families: [unfit("IPv4"), unfit("IPv6")] }),
    "neither IP family can be served (no tool for IPv4)",
  );
  assert.equal(await waitingFor("there is no control socket at /s"), "there is no control socket at /s");
});

Deno.test("progress is one redrawn line on a terminal, and a line per change elsewhere", () => {
  for (
    const [isTerminal, expected] of [
      [true, "\r\x1b[K0 s  a\r\x1b[K1 s  a\r\x1b[K1 s  b\r\x1b[K"],
      [false, "waiting: a\nwaiting: b\n"],
    ] as const
  ) {
    const clock = createFakeClock();
    let printed = "";
    const progress = createProgress({ clock, print: (text) => printed += text }, isTerminal);
    progress.show("a");
    clock.advance(500);
    progress.show("a");
    clock.advance(500);
    progress.show("a");
    progress.show("b");
    progress.end();
    assert.equal(printed, expected);
  }
});

/** Starts a service that has these states one after the other, and the last one from then on. */
async function startService(
  states: readonly Partial<ServiceState>[],
  socket: string | undefined,
  log = "no kubeconfig",
) {
  const clock = createFakeClock(), calls: string[] = [], left = [...states];
  let printed = "";
  const state = { isActive: false, isStarting: false, restarts: 0, words: "failed" };
  const service: Service = {
    start: () => Promise.resolve(void calls.push("start")),
    stop: () => Promise.resolve(void calls.push("stop")),
    state: () => Promise.resolve({ ...state, ...(left.length > 1 ? left.shift()! : left[0]!) }),
    log: () => log === "" ? Promise.reject(new Error("no journal")) : Promise.resolve(log),
    manual: { start: "", stop: "systemctl disable --now sluice", log: "journalctl -u sluice" },
  };
  const waiter = { clock, print: (text: string) => void (printed += text), signal: new AbortController().signal };
  const started = startAndWait(waiter, service, socket);
  await settled();
  const waitsMs = clock.pending();
  if (socket === undefined) clock.advance(5000);
  return { status: await started, printed, calls, waitsMs };
}

const UP = { isActive: true };

Deno.test("without a control socket, a service that still runs after five seconds has started", async () => {
  const { status, printed, calls, waitsMs } = await startService([{ restarts: 7 }, { ...UP, restarts: 7 }], undefined);
  assert.deepEqual([status, calls, waitsMs], [0, ["start"], [5000]]);
  assert.match(printed, /^The service runs and starts at boot: sluice status, journalctl -u sluice\nTo uninstall: /);
  assert.equal((await startService([{}, { isStarting: true }], undefined)).status, 0);
  // systemd counts from 0 again once it has started the service.
  assert.equal((await startService([{ restarts: 7 }, { ...UP, restarts: 0 }], undefined)).status, 0);
});

Deno.test("a service that does not run, or was restarted, is not in order: the end of its log follows", async () => {
  for (const after of [{}, { ...UP, restarts: 1 }, { isStarting: true, restarts: 1 }]) {
    const { status, printed, calls } = await startService([{}, after], undefined);
    assert.deepEqual([status, calls], [1, ["start"]]);
    assert.match(
      printed,
      /^The service is not in order: failed\. The end .*\n\nno kubeconfig\n[^]*systemctl disable --now/,
    );
  }
  assert.match((await startService([{}], undefined, "")).printed, /\n\nno log: no journal\n/);
});

Deno.test("the wait for a service ends once it has exited three times since the start", async () => {
  const { status, printed } = await startService([{ restarts: 4 }, { ...UP, restarts: 7 }], "/nowhere/control.sock");
  assert.equal(status, 1);
  assert.match(
    printed,
    /the service exits: failed, 3 restarts[^]*The service is not in order: it has exited 3 times\./,
  );
});

Deno.test("status without a proxy says how the service is, and the last line of its log", () => {
  const log = 'sluice[1]: starting\nsluice[1]: exiting error="no kubeconfig"\n';
  assert.equal(
    stoppedText("activating (auto-restart), exit status 1", 14, log, "journalctl -u sluice"),
    "sluice: the service is activating (auto-restart), exit status 1, restarted 14 times; " +
      'last: sluice[1]: exiting error="no kubeconfig"\n' +
      "sluice: journalctl -u sluice shows more; `sluice check` looks for the cause\n",
  );
  for (const [restarts, times] of [[1, "once"], [2, "2 times"]] as const) {
    assert.match(stoppedText("failed", restarts, "", "journalctl"), new RegExp(`failed, restarted ${times}\n`));
  }
  assert.equal(
    stoppedText("inactive (dead)", 0, "", "tail /var/log/sluice.log").split("\n")[0],
    "sluice: the service is inactive (dead)",
  );
});
