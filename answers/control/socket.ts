/**
 * The unix socket on which a running proxy answers: only its user may connect, and a socket in use is never replaced.
 */
import { errorText } from "../../platform/mod.ts";

/** Another process answers on the socket. */
export class SocketInUseError extends Error {
  override readonly name = "SocketInUseError";
}

/**
 * Listens on a unix socket that only this user may open: mode 0600, in a folder that is created with mode 0700 if
 * missing. Replaces the socket of a proxy that is gone. Needs write permission there, but only for this call.
 * @throws {SocketInUseError} if another process answers there
 */
export async function listenOnControlSocket(path: string): Promise<Deno.Listener> {
  try {
    await Deno.mkdir(folderOf(path), { recursive: true, mode: 0o700 });
    await removeStale(path);
    const listener = Deno.listen({ transport: "unix", path });
    await Deno.chmod(path, 0o600);
    return listener;
  } catch (error) {
    if (error instanceof SocketInUseError) throw error;
    throw new Error(`cannot open the control socket ${path}: ${errorText(error)}`, { cause: error });
  }
}

async function removeStale(path: string): Promise<void> {
  let found: Deno.FileInfo;
  try {
    found = await Deno.lstat(path);
  } catch (error) {
    if (error instanceof Deno.errors.NotFound) return;
    throw error;
  }
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

function folderOf(path: string): string {
  const slash = path.lastIndexOf("/");
  return slash > 0 ? path.slice(0, slash) : slash === 0 ? "/" : ".";
}
