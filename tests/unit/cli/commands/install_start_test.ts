/** The end of `sluice install`: what is started, what is waited for, and the exit status. */
import assert from "node:assert/strict";
import { type ControlAnswers, serveControlSocket } from "../../../../answers/control/mod.ts";
import { listenOnControlSocket } from "../../../../answers/control/socket.ts";
import { createAnswers } from "../../../../answers/mod.ts";
import type { Invocation } from "../../../../cli/commands/command.ts";
import { COMMANDS } from "../../../../cli/commands/mod.ts";
import { checkAndStart, startAndWait } from "../../../../cli/commands/install_start.ts";
import type { Service } from "../../../../cli/commands/service.ts";
import { CONFIGURATION, type Wanted } from "../../../../cli/installation/mod.ts";
import type { Finding } from "../../../../core/problems/mod.ts";
import { systemClock } from "../../../../platform/clock.ts";
import { silentLogger } from "../../../../platform/log.ts";
import { fakeAnswerBasis, HERE } from "../../../fakes/answer_basis.ts";
import { createFakeClock } from "../../../fakes/clock.ts";
import { node } from "../../../fakes/cluster_objects.ts";
import { fakeFamilyStatus, fakeSync, fakeView } from "../../../fakes/proxy_status.ts";
import { passingDuring } from "../../../fakes/wait.ts";

const UP = { isActive: true, isStarting: false, restarts: 0, words: "active (running)" };
const MANUAL = { start: "systemctl start sluice", stop: "systemctl stop sluice", log: "journalctl -u sluice" };

/** A service that notes when it is started, and is active or not from then on. */
function createService(started: () => void = () => {}, isActive = true): Service {
  return {
    start: () => Promise.resolve(started()),
    stop: () => Promise.resolve(),
    state: () => Promise.resolve({ ...UP, isActive }),
    log: () => Promise.resolve("the log"),
    manual: MANUAL,
  };
}

const GREEN: Finding = { name: "nft", verdict: "green", message: "works" };
const RED: Finding = { name: "nft", verdict: "red", message: "is missing", code: "tool-missing", fix: "install it" };

interface Case {
  readonly configuration?: string;
  readonly isNow: boolean;
  readonly finding?: Finding;
  readonly hasManager?: boolean;
}

/** Runs the second half of an installation; without a control socket, a start is complete after five seconds. */
async function finish({ configuration, isNow, finding = GREEN, hasManager = true }: Case) {
  let printed = "", starts = 0;
  const clock = createFakeClock(), service = hasManager ? createService(() => starts++) : undefined;
  const invocation = {
    ...{ commands: COMMANDS, clock, signal: new AbortController().signal },
    flags: new Map(isNow ? [["now", true]] : []),
    print: (text: string) => void (printed += text),
  } as unknown as Invocation;
  const wanted: Wanted = {
    configuration: configuration ?? "{ apiVersion: kubeproxy.config.k8s.io/v1alpha1, kind: KubeProxyConfiguration }",
    words: ["--source=file:/m n", "--control-socket="],
    files: [CONFIGURATION, "/etc/systemd/system/sluice.service"].map((path) => ({
      ...{ path, mode: 0o644, content: { text: "" }, replacement: "always" as const },
    })),
    difference: "",
  };
  const here = { findingsOf: () => Promise.resolve([finding]), serviceHere: () => Promise.resolve(service) };
  const status = await passingDuring(clock, checkAndStart(invocation, wanted, here), 1000);
  return { status, starts, printed };
}

Deno.test("the service is started with --now alone, and not if a check is red", async () => {
  for (
    const [isNow, finding, status, starts, next] of [
      [true, GREEN, 0, 1, /\nThe service runs and starts at boot: .*\nTo uninstall: /],
      [true, RED, 1, 0, /\nNot started because a check is red\. /],
      [false, GREEN, 0, 0, /\nNext: review \S+, then start the service:\n {2}systemctl start sluice\nTo uninstall: /],
      [false, RED, 0, 0, /\nNext: review \S+, fix the red checks .*, then start the service:\n/],
    ] as const
  ) {
    const done = await finish({ isNow, finding });
    assert.deepEqual([done.status, done.starts], [status, starts]);
    assert.match(done.printed, next);
  }
});

Deno.test("without a service manager, the command is printed, and --now has failed", async () => {
  for (const [isNow, status] of [[true, 1], [false, 0]] as const) {
    const done = await finish({ isNow, hasManager: false });
    assert.equal(done.status, status);
    assert.match(
      done.printed,
      /\nNeither systemd nor OpenRC runs here\. \/etc\/systemd\/system\/sluice\.service takes effect [^]*\n {2}\S+ --config \S+ '--source=file:\/m n' --control-socket=\n$/,
    );
  }
});

Deno.test("an installed configuration that is invalid is red, and nothing is started", async () => {
  const { status, starts, printed } = await finish({ configuration: "{ kind: Pod }", isNow: true });
  assert.deepEqual([status, starts], [1, 0]);
  assert.match(printed, /configuration .*\bkind\b[^]*edit \/etc\/sluice\/config\.yaml/);
});

/** Starts a service whose proxy answers on its control socket that everything is in effect, or that it still starts. */
async function startWithSocket(inOrder: boolean, service: Service) {
  const folder = await Deno.makeTempDir(), path = `${folder}/control.sock`, end = new AbortController();
  const family = fakeFamilyStatus(inOrder ? { syncs: [fakeSync()] } : { worker: { state: "starting" }, syncs: [] });
  const answers: ControlAnswers = {
    ...createAnswers(fakeAnswerBasis([node(HERE)])),
    status: () => Promise.resolve(fakeView({ families: [family] })),
  } as unknown as ControlAnswers;
  const served = serveControlSocket({
    ...{ listener: await listenOnControlSocket(path), answers: () => Promise.resolve(answers) },
    ...{ clock: systemClock, logger: silentLogger, signal: end.signal },
  });
  const clock = createFakeClock(), startMs = clock.monotonic();
  let printed = "";
  const waiter = { clock, print: (text: string) => void (printed += text), signal: end.signal };
  try {
    const status = await passingDuring(clock, startAndWait(waiter, service, path), 100);
    return { status, printed, tookMs: clock.monotonic() - startMs };
  } finally {
    end.abort();
    await served;
    await Deno.remove(folder, { recursive: true });
  }
}

Deno.test("with a control socket, a start is complete once the proxy and the service manager say so", async () => {
  const { status, printed } = await startWithSocket(true, createService());
  assert.equal(status, 0);
  assert.match(printed, /\nThe service runs and starts at boot: /);
});

Deno.test("after half a minute, what is not in effect is an error", async () => {
  for (
    const [inOrder, isActive, failure] of [
      [false, true, /is not in order: after 30 s, IPv4: starting\. /],
      [true, false, /is not in order: the rules are in effect, but systemd was not notified\. /],
    ] as const
  ) {
    const { status, printed, tookMs } = await startWithSocket(inOrder, createService(undefined, isActive));
    assert.equal(status, 1);
    assert.match(printed, failure);
    assert.ok(tookMs >= 30_000 && tookMs < 32_000, `${tookMs} ms`);
  }
});

Deno.test("while a start is awaited, a service that exits is shown, unlike one that still starts", async () => {
  const restarts = [0, 0, 1, 3];
  const state = () => Promise.resolve({ ...UP, isActive: false, isStarting: true, restarts: restarts.shift() ?? 3 });
  const { printed } = await startWithSocket(false, { ...createService(), state });
  assert.match(printed, /IPv4: starting\W[^]*the service exits: active \(running\), 1 restart\W/);
  assert.doesNotMatch(printed, /0 restarts/);
});
