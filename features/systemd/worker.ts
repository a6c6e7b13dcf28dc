/** Notifies systemd, in a family's worker. */
import { runOrThrow } from "../../backends/tools/mod.ts";
import type { FamilyWorker } from "../contract.ts";

const TIMEOUT_MS = 4_000;

/** Notifies systemd, waits until it has read the notification, and restarts the watchdog's time. Throws if the tool fails. */
export async function notifyServiceManager(
  { options: { runner }, path }: FamilyWorker,
  { socket, status, ready }: { readonly socket: string; readonly status: string; readonly ready: boolean },
): Promise<true> {
  const args = [...(ready ? ["--ready"] : []), `--status=${status}`, "WATCHDOG=1"];
  const env = { PATH: path, NOTIFY_SOCKET: socket };
  await runOrThrow(runner, { tool: "systemd-notify", args, env, timeoutMs: TIMEOUT_MS });
  return true;
}
