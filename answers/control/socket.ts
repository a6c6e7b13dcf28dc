/** The unix socket on which a running proxy answers: only its user may connect, and a socket in use is never replaced. */
import { type Clock, dirname, errorText, ifMissing } from "../../platform/mod.ts";
import { identifyProcess } from "./client.ts";
import { pidFileOf, type ProxyProcess } from "./process.ts";

/** Another process answers on the socket. */
export class SocketInUseError extends Error {
  override readonly name = "SocketInUseError";
}

/**
 * Listens on a unix socket that only this user may open: mode 0600, in a folder that is created with mode 0700 if missing.
 * Replaces the socket of a proxy that has exited. Needs write permission there, but only for this call.
 * @throws {SocketInUseError} if another process answers there
 */
export async function listenOnControlSocket(path: string): Promise<Deno.Listener> {
  try {
    await Deno.mkdir(dirname(path), { recursive: true, mode: 0o700 });
    await removeStale(path);
    const listener = Deno.listen({ transport: "unix", path });
    await Deno.chmod(path, 0o600);
    await Deno.writeTextFile(pidFileOf(path), `${Deno.pid}\n`, { mode: 0o600 });
    return listener;
  } catch (error) {
    if (error instanceof SocketInUseError) throw error;
    throw new Error(`cannot open the control socket ${path}: ${errorText(error)}`, { cause: error });
  }
}

async function removeStale(path: string): Promise<void> {
  const found = await Deno.lstat(path).catch(ifMissing);
  if (found === undefined) return;
  if (!found.isSocket) throw new Error("the path exists and is not a socket (remove it or choose another path)");
  if (await answers(path)) throw new SocketInUseError(`another process answers on ${path}`);
  await Deno.remove(path);
}

/** Whether a process answers on a unix socket. */
async function answers(path: string): Promise<boolean> {
  try {
    (await Deno.connect({ transport: "unix", path })).close();
    return true;
  } catch (error) {
    if (error instanceof Deno.errors.ConnectionRefused) return false;
    throw error;
  }
}

/** Another Sluice serves this node. */
export class AnotherSluiceError extends Error {
  override readonly name = "AnotherSluiceError";

  /** `where` is the path of its control socket, or the address of its metrics or health server. */
  constructor(where: string, pid: number | undefined) {
    const who = pid === undefined ? "" : ` (pid ${pid})`;
    super(`another sluice is running${who}: it answers on ${where}; stop it before you start this one`);
  }
}

/** The time that the other process has to identify itself, in milliseconds. */
const LONGEST_ANSWER_MS = 2000;

/**
 * Throws if the process that holds the control socket `path` serves the same network namespace as this one, or if it
 * does not identify itself (it hangs, or starts slowly) and one of this proxy's ports is taken. Returns if it serves
 * another namespace, whose rules are separate, or if either process cannot read its own namespace: nodes may share a
 * file system, and a conflict still shows on the ports.
 * @throws {AnotherSluiceError}
 */
export async function refuseAnother(
  path: string,
  clock: Clock,
  { self, portsAreFree }: { readonly self: ProxyProcess; readonly portsAreFree: () => boolean },
): Promise<void> {
  const other = await identifyProcess(path, { clock, timeoutMs: LONGEST_ANSWER_MS }).catch(() => undefined);
  if (other === undefined) {
    if (portsAreFree()) return;
    throw new AnotherSluiceError(path, undefined);
  }
  const { pid, networkNamespace } = other;
  if (networkNamespace !== undefined && networkNamespace === self.networkNamespace) {
    throw new AnotherSluiceError(path, pid);
  }
}
