/** The installed service, as its service manager runs it. */
import { runOrThrow } from "../../backends/tools/mod.ts";
import { isSystemdRunning, OPENRC_LOG, serviceManagerIn } from "../installation/mod.ts";
import { type Invocation, toolRunner } from "./command.ts";

/** The state of the service. */
export interface ServiceState {
  /** Whether its start is complete: under systemd, the rules are in effect. */
  readonly isActive: boolean;
  /** Whether the process runs and its start is not complete. */
  readonly isStarting: boolean;
  /** The number of automatic restarts since the last start; 0 if the service manager does not count them. */
  readonly restarts: number;
  /** The state in the service manager's words: `activating (auto-restart), exit status 1`. */
  readonly words: string;
}

/** The service under one service manager. */
export interface Service {
  /** Starts or restarts it without waiting for the rules, and enables it at boot. Throws with the service manager's message if that fails. */
  start(): Promise<void>;
  stop(): Promise<void>;
  state(): Promise<ServiceState>;
  log(): Promise<string>;
  /** Command lines for an administrator. */
  readonly manual: { readonly start: string; readonly stop: string; readonly log: string };
}

const LOG_LINES = 20;

/** Returns the service under the service manager that runs this system; undefined if there is none. */
export async function serviceHere(invocation: Invocation): Promise<Service | undefined> {
  const runner = await toolRunner(invocation);
  const run = async (tool: string, ...args: readonly string[]) =>
    (await runOrThrow(runner, { tool, args }, [tool, ...args].join(" "))).stdout;
  if (isSystemdRunning()) return systemdService(run);
  return serviceManagerIn("") === "openrc"
    ? openrcService(run, async () => (await runner.run({ tool: "rc-service", args: ["sluice", "status"] })).exitCode)
    : undefined;
}

type Run = (tool: string, ...args: readonly string[]) => Promise<string>;

/** The service under systemd; `run` returns the output of a tool, and throws if it fails. */
export function systemdService(run: Run): Service {
  const show = async () => {
    const names = "LoadState,ActiveState,SubState,NRestarts,ExecMainStatus";
    const text = await run("systemctl", "show", "sluice", `--property=${names}`);
    return new Map(text.split("\n").map((line) => line.split("=", 2) as [string, string]));
  };
  return {
    async start() {
      await run("systemctl", "daemon-reload");
      await run("systemctl", "enable", "sluice");
      // Stop first: otherwise, the caller would read the answers of the old process.
      await run("systemctl", "stop", "sluice");
      // systemd would wait until the rules are in effect; the caller does, and shows its progress.
      await run("systemctl", "start", "--no-block", "sluice");
    },
    async stop() {
      if ((await show()).get("LoadState") === "loaded") await run("systemctl", "disable", "--now", "sluice");
    },
    async state() {
      const values = await show();
      const [active = "unknown", sub = "", status = "0"] = ["ActiveState", "SubState", "ExecMainStatus"]
        .map((name) => values.get(name));
      const exit = status === "0" ? "" : `, exit status ${status}`;
      return {
        isActive: active === "active",
        isStarting: sub === "start",
        restarts: Number(values.get("NRestarts") ?? 0),
        words: `${active} (${sub})${exit}`,
      };
    },
    log: () => run("journalctl", "-u", "sluice", "-n", String(LOG_LINES), "--no-pager"),
    manual: {
      start: "systemctl daemon-reload && systemctl enable sluice && systemctl restart sluice",
      stop: "systemctl disable --now sluice",
      log: "journalctl -u sluice",
    },
  };
}

/** The service under OpenRC; `exitOfStatus` returns the exit status of `rc-service sluice status`. */
export function openrcService(run: Run, exitOfStatus: () => Promise<number>): Service {
  return {
    async start() {
      await run("rc-update", "add", "sluice", "default");
      await run("rc-service", "sluice", "restart");
    },
    async stop() {
      await run("rc-service", "--ifexists", "sluice", "stop");
      // Fails if it is not enabled.
      await run("rc-update", "del", "sluice", "default").catch(() => {});
    },
    async state() {
      const exit = await exitOfStatus();
      return {
        isActive: exit === 0,
        isStarting: false,
        restarts: 0,
        words: exit === 0 ? "started" : `not started (status ${exit})`,
      };
    },
    async log() {
      const lines = (await Deno.readTextFile(OPENRC_LOG)).trimEnd().split("\n");
      return `${lines.slice(-LOG_LINES).join("\n")}\n`;
    },
    manual: {
      start: "rc-update add sluice default && rc-service sluice restart",
      stop: "rc-service sluice stop && rc-update del sluice",
      log: `tail ${OPENRC_LOG}`,
    },
  };
}
