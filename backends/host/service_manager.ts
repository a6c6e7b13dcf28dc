import type { ServiceNotification } from "../../core/model/mod.ts";
import { type Runner, runOrThrow } from "../tools/mod.ts";

/** The tool that notifies systemd: Deno cannot send a datagram with the permission for one socket. */
export const NOTIFY_TOOL = "systemd-notify";

const TIMEOUT_MS = 4_000;

/**
 * Notifies systemd, waits until it has read the notification, and restarts the watchdog's time. Throws if the tool fails.
 * @param path the search path of tools
 */
export async function notifyServiceManager(
  runner: Runner,
  path: string,
  { socket, status, ready }: ServiceNotification,
): Promise<true> {
  const args = [...(ready ? ["--ready"] : []), `--status=${status}`, "WATCHDOG=1"];
  await runOrThrow(runner, {
    tool: NOTIFY_TOOL,
    args,
    env: { PATH: path, NOTIFY_SOCKET: socket },
    timeoutMs: TIMEOUT_MS,
  });
  return true;
}
