import { feature } from "../contract.ts";
import { NOTIFY_SOCKET } from "./calls.ts";

/**
 * Tells systemd when the rules are in effect, the state in words, and that the process is alive (docs/operate.md). On if the
 * unit has `Type=notify`.
 */
export const systemd = feature({
  name: "systemd",
  fields: {},
  flags: {},
  problems: {},
  isOn: (_options, _mode, environment) => NOTIFY_SOCKET.is(environment("NOTIFY_SOCKET")),
  load: () => import("./start.ts"),
});
