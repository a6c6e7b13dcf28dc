import { ifValid, isBoolean, oneOf, record, text } from "../../platform/checks/mod.ts";
import type { AnsweredCall } from "../contract.ts";

/** A notification of the service manager (sd_notify(3)). */
export interface ServiceNotification {
  /** The value of `NOTIFY_SOCKET`: a path, or `@` and a name in the abstract namespace. */
  readonly socket: string;
  /** The state in words: one line. */
  readonly status: string;
  /** Whether the start is complete. */
  readonly ready: boolean;
}

/** Whether a value of `NOTIFY_SOCKET` is a unix socket; in a virtual machine it may be one of the host (`vsock:`). */
export function isNotifySocket(value: unknown): value is string {
  return typeof value === "string" && /^[@/]\P{Cc}{1,107}$/u.test(value);
}

/** Notifies the service manager; no answer if that fails. */
export const notify: AnsweredCall<ServiceNotification, true> = {
  name: "notify",
  // Deno cannot send a datagram with the permission for one socket.
  tools: ["systemd-notify"],
  isRequest: record<ServiceNotification>({
    socket: isNotifySocket,
    status: text(/^\P{Cc}{0,200}$/u),
    ready: isBoolean,
  }),
  checked: ifValid(oneOf(true)),
  async handle(worker, notification) {
    const { notifyServiceManager } = await import("./worker.ts");
    return await notifyServiceManager(worker, notification);
  },
};
