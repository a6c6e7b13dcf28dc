import * as shape from "../../platform/shapes/mod.ts";
import type { AnsweredCall } from "../contract.ts";
import { NOTIFICATION, type ServiceNotification } from "./notification.ts";

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
