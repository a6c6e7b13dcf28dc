import * as shape from "../../platform/shapes/mod.ts";

/** A value of `NOTIFY_SOCKET` that is a unix socket; in a virtual machine it may be one of the host (`vsock:`). */
export const NOTIFY_SOCKET = shape.text(/^[@/]\P{Cc}{1,107}$/u);

/** A notification of the service manager (sd_notify(3)). */
export const NOTIFICATION = shape.record({
  /** The value of `NOTIFY_SOCKET`: a path, or `@` and a name in the abstract namespace. */
  socket: NOTIFY_SOCKET,
  /** The state in words: one line. */
  status: shape.text(/^\P{Cc}{0,200}$/u),
  /** Whether the start is complete. */
  ready: shape.BOOLEAN,
});

/** See `NOTIFICATION`. */
export type ServiceNotification = shape.TypeOf<typeof NOTIFICATION>;
