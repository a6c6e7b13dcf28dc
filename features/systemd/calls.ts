import * as shape from "../../platform/shapes/mod.ts";
import type { AnsweredCall } from "../contract.ts";

/** A value of `NOTIFY_SOCKET` that is a unix socket; in a virtual machine it may be one of the host (`vsock:`). */
export const NOTIFY_SOCKET = shape.text(/^[@/]\P{Cc}{1,107}$/u);

/** A notification of the service manager (sd_notify(3)). */
const NOTIFICATION = shape.record({
  /** The value of `NOTIFY_SOCKET`: a path, or `@` and a name in the abstract namespace. */
  socket: NOTIFY_SOCKET,
  /** The state in words: one line. */
  status: shape.text(/^\P{Cc}{0,200}$/u),
  /** Whether the start is complete. */
  ready: shape.BOOLEAN,
});

/** See `NOTIFICATION`. */
export type ServiceNotification = shape.TypeOf<typeof NOTIFICATION>;

/** Notifies the service manager; no answer if that fails. */
export const notify: AnsweredCall<ServiceNotification, true> = {
  name: "notify",
  // Deno cannot send a datagram with the permission for one socket.
  tools: ["systemd-notify"],
  request: NOTIFICATION,
  checked: shape.ifValid(shape.oneOf(true)),
  async handle(worker, notification) {
    const { notifyServiceManager } = await import("./worker.ts");
    return await notifyServiceManager(worker, notification);
  },
};
