/** The control socket of `sluice run`, through which other commands query the proxy. */
import type { ControlAnswers } from "../../answers/control/mod.ts";
import type { Configuration } from "../../config/mod.ts";
import type { ReportProblems } from "../../core/problems/mod.ts";
import { type Clock, errorText } from "../../platform/mod.ts";
import type { Invocation } from "./command.ts";

/**
 * Opens the control socket; must run before the write permission is dropped. The proxy works without one unless
 * `isRequired` (its flag was given). By default only root's proxy has one.
 * @throws {AnotherSluiceError} if the Sluice listening there serves the same network
 */
export async function openControlSocket(
  configuration: Configuration,
  isRequired: boolean,
  clock: Clock,
  onProblems: ReportProblems,
): Promise<Deno.Listener | undefined> {
  const { controlSocket: path, cleanup, initOnly } = configuration;
  if (path === undefined || cleanup || initOnly || !isRequired && Deno.uid() !== 0) return undefined;
  const { listenOnControlSocket, refuseAnother, SocketInUseError, thisProcess } = await import(
    "../../answers/control/mod.ts"
  );
  // Reads the network namespace, which may be inaccessible once the write permission is dropped.
  thisProcess();
  try {
    return await listenOnControlSocket(path);
  } catch (error) {
    if (error instanceof SocketInUseError) {
      const { portsAreFree } = await import("../../observe/mod.ts");
      await refuseAnother(path, clock, { self: thisProcess(), portsAreFree: () => portsAreFree(configuration) });
    }
    if (isRequired) throw error;
    onProblems("control socket", [{ code: "control-socket-closed", subject: path, detail: errorText(error) }]);
    return undefined;
  }
}

/**
 * Serves the running proxy's answers on the control socket. Returns a function that sets them; earlier requests wait for
 * its first call.
 */
export async function serveAnswers(
  listener: Deno.Listener | undefined,
  { clock, logger, signal }: Pick<Invocation, "clock" | "logger" | "signal">,
): Promise<(answers: () => Promise<ControlAnswers>) => void> {
  if (listener === undefined) return () => {};
  const first = Promise.withResolvers<void>();
  let current: () => Promise<ControlAnswers>;
  const answers = async () => {
    await first.promise;
    return await current();
  };
  const { serveControlSocket } = await import("../../answers/control/mod.ts");
  serveControlSocket({ listener, answers, clock, logger, signal });
  return (answers) => {
    current = answers;
    first.resolve();
  };
}
