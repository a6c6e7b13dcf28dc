/** The second half of `sluice install`: checks the node, starts the service and waits until it works. */
import { type CommandLine, readCommandLine } from "../../config/mod.ts";
import { type Finding, findingsText, problemFinding, worstOf } from "../../core/problems/mod.ts";
import { durationText, errorText, plural, sleep } from "../../platform/mod.ts";
import { CONFIGURATION, PROGRAM, type Wanted } from "../installation/mod.ts";
import { findingsOf } from "./check.ts";
import { contextOf, type Invocation, linesText } from "./command.ts";
import { type Service, serviceHere, type ServiceState } from "./service.ts";
import { awaitOrder, type Report } from "./status.ts";

/** The maximum wait until everything is in effect, in milliseconds. */
const START_MS = 30_000;
/** The interval of checks whether the start is complete, in milliseconds. */
const POLL_MS = 100;
/** The wait for a proxy without a control socket, in milliseconds: long enough to see it exit. */
const BLIND_MS = 5_000;
/** The number of restarts after which a service counts as failed. */
const MAX_RESTARTS = 3;

/**
 * Checks the node, starts the service with --now unless a check is red, and prints the next steps. Returns the exit status.
 * @param here by default the checks of this node and its service
 */
export async function checkAndStart(
  invocation: Invocation,
  wanted: Wanted,
  here = { findingsOf, serviceHere },
): Promise<0 | 1> {
  const { flags, print } = invocation;
  const { configuration, words } = wanted;
  // The installed configuration may contain more than the flags.
  const context = contextOf(invocation.commands);
  const line = await readCommandLine(["run", "--config", CONFIGURATION, ...words], {
    ...context,
    readFile: (path) => path === CONFIGURATION ? configuration : context.readFile(path),
  });
  const findings = line.kind === "start"
    ? await here.findingsOf(invocation, line.configuration)
    : [invalidConfiguration(line)];
  print(`\n${findingsText(findings)}\n`);
  const isRed = worstOf(findings) === "red";
  const isNow = flags.get("now") === true;
  const service = await here.serviceHere(invocation);
  if (isRed && isNow) {
    print("Not started because a check is red. Fix it, then run sluice install --now again.\n");
    return 1;
  }
  if (service === undefined) {
    print(manualStart(wanted));
    return isNow ? 1 : 0;
  }
  const socket = line.kind === "start" ? line.configuration.controlSocket : undefined;
  if (isNow) return await startAndWait(invocation, service, socket);
  const fix = isRed ? ", fix the red checks (sluice check repeats them)" : "";
  print(`Next: review ${CONFIGURATION}${fix}, then start the service:\n  ${service.manual.start}\n`);
  print(UNINSTALL);
  return 0;
}

const UNINSTALL = `To uninstall: ${PROGRAM} uninstall --now --cleanup\n`;

/** The instructions for a system without a running service manager. */
function manualStart({ files, words }: Wanted): string {
  const service = files.find(({ path }) => path !== CONFIGURATION);
  const command = [PROGRAM, "--config", CONFIGURATION, ...words].map(shellWord).join(" ");
  const later = service === undefined
    ? ""
    : `${service.path} takes effect at the next boot once the service is enabled (systemctl enable sluice). `;
  return `Neither systemd nor OpenRC runs here. ${later}Run this as root, and restart it whenever it exits:\n  ${command}\n`;
}

function invalidConfiguration(line: Exclude<CommandLine, { readonly kind: "start" }>): Finding {
  const message = line.kind === "errors" ? line.errors.join("; ") : `has the effect of --${line.kind}`;
  return problemFinding("configuration", "configuration-invalid", message, `edit ${CONFIGURATION}`);
}

type Waiter = Pick<Invocation, "clock" | "print" | "signal">;

/** Starts the service and waits until everything is in effect, as its control socket says. Returns the exit status. */
export async function startAndWait(invocation: Waiter, service: Service, socket: string | undefined): Promise<0 | 1> {
  const { print } = invocation;
  await service.start();
  const failure = socket === undefined
    ? await awaitBlindly(invocation, service)
    : await awaitService(invocation, service, socket);
  if (failure === undefined) {
    print(`The service runs and starts at boot: sluice status, ${service.manual.log}\n${UNINSTALL}`);
    return 0;
  }
  const log = await service.log().catch((error) => `no log: ${errorText(error)}\n`);
  print(
    `The service is not in order: ${failure}. The end of its log (${service.manual.log}):\n\n${log}\n` +
      `It stays enabled and keeps trying. See its state with sluice status, or stop it: ${service.manual.stop}\n`,
  );
  return 1;
}

/**
 * Waits for the proxy that answers on the control socket, and prints its status if everything is in effect; else returns what
 * is missing.
 */
async function awaitService(invocation: Waiter, service: Service, socket: string): Promise<string | undefined> {
  const { clock, print, signal } = invocation;
  const progress = createProgress(invocation);
  const startMs = clock.monotonic();
  const restartsSince = await countRestarts(service);
  let crash: string | undefined;
  const report = await awaitOrder(invocation, socket, START_MS, async (found) => {
    const state = await service.state();
    const restarts = restartsSince(state);
    if (restarts >= MAX_RESTARTS) crash = `it has exited ${restarts} times`;
    const isUp = (state.isActive || state.isStarting) && restarts === 0;
    progress.show(isUp ? await waitingFor(found) : `the service exits: ${state.words}, ${plural(restarts, "restart")}`);
    return crash !== undefined;
  });
  progress.end();
  if (crash !== undefined) return crash;
  if (typeof report === "string" || !report.status.inOrder) {
    return `after ${durationText(clock.monotonic() - startMs)}, ${await waitingFor(report)}`;
  }
  for (; !(await service.state()).isActive; await sleep(clock, POLL_MS, signal)) {
    if (clock.monotonic() - startMs > START_MS) return "the rules are in effect, but systemd was not notified";
  }
  const { statusLines } = await import("../text/mod.ts");
  print(`${linesText(statusLines(report.status, report.needy))}\n`);
  return undefined;
}

/** A function that returns the restarts since now: systemd keeps the count of a service that is started while it restarts. */
async function countRestarts(service: Service): Promise<(state: ServiceState) => number> {
  const { restarts: before } = await service.state();
  return ({ restarts }) => restarts < before ? restarts : restarts - before;
}

async function awaitBlindly({ clock, signal }: Waiter, service: Service): Promise<string | undefined> {
  const restartsSince = await countRestarts(service);
  await sleep(clock, BLIND_MS, signal);
  const state = await service.state();
  return (state.isActive || state.isStarting) && restartsSince(state) === 0 ? undefined : state.words;
}

function shellWord(word: string): string {
  return /^[\w@%+=:,./-]+$/.test(word) ? word : `'${word.replaceAll("'", "'\\''")}'`;
}

/** Creates the progress of a wait that starts now. */
export function createProgress(
  { clock, print }: Pick<Invocation, "clock" | "print">,
  isTerminal = Deno.stdout.isTerminal(),
): { show(text: string): void; end(): void } {
  const startMs = clock.monotonic();
  let shown = "";
  return {
    /** Shows the thing waited for: on a terminal in one line, with the time so far; elsewhere a line for each change. */
    show(text) {
      const seconds = Math.floor((clock.monotonic() - startMs) / 1000);
      const line = isTerminal ? `${seconds} s  ${text}` : text;
      if (line === shown) return;
      shown = line;
      print(isTerminal ? `\r\x1b[K${line}` : `waiting: ${line}\n`);
    },
    /** Removes the line from a terminal. */
    end() {
      if (isTerminal && shown !== "") print("\r\x1b[K");
    },
  };
}

/** The first thing that is not in effect; `found` is a report, or why no proxy answered. */
export async function waitingFor(found: Report | string): Promise<string> {
  if (typeof found === "string") return found;
  const { sentenceOf } = await import("../../answers/status/mod.ts");
  const { state, link, linkState, families } = found.status;
  if (linkState !== undefined && link?.state !== "connected") {
    const words = `API server or relay: ${linkState.words}`;
    return sentenceOf({ words, reason: link?.lastError ?? linkState.reason });
  }
  const { reason } = families.find(({ family }) => state.words.startsWith(`${family}: `))?.state ?? state;
  return sentenceOf({ ...state, reason });
}
