/** Kills a process that may have exited, and waits for its end. */
export async function endChild(child: Deno.ChildProcess): Promise<void> {
  try {
    child.kill("SIGKILL");
  } catch {
    // It has exited.
  }
  await child.status;
}
