/**
 * The control socket, through which commands query the running proxy.
 *
 * In: requests over a unix socket. Out: JSON. May touch: the socket and its folder.
 */
export { AnotherSluiceError, refuseAnother } from "./another.ts";
export { connectToProxy, NoProxyError } from "./client.ts";
export { eventText } from "./event_text.ts";
export { NotReadyError } from "./not_ready.ts";
export { thisProcess } from "./process.ts";
export { serveControlSocket } from "./serve.ts";
export type { ControlAnswers } from "./server.ts";
export { listenOnControlSocket, SocketInUseError } from "./socket.ts";
export {
  isInOrder,
  stateOfCanary,
  stateOfFamily,
  stateOfLink,
  stateOfProxy,
  stateOfSite,
  type StateWords,
} from "./state_words.ts";
export { type StatusSummary, summaryOf } from "./summary.ts";
export type { FamilyStatusDetails, ProxyStatus } from "./status.ts";
