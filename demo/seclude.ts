/**
 * Runs a command where it cannot leave a trace on the machine: with network, mounts, processes and `/run` of its own.
 * All of it, network namespaces, rules and processes, is gone with the command, however it ends.
 */

/** Set for the command, and for all it starts. */
const MARK = "SLUICE_SECLUDED";

/** Whether this process runs inside already. */
export function isSecluded(): boolean {
  return Deno.env.get(MARK) === "1";
}

// The shell stays process 1, so that a command that is interrupted ends as it would anywhere.
const INSIDE = 'mount -t tmpfs tmpfs /run && mkdir /run/netns && ip link set lo up && "$@"; exit $?';

/** Runs a command inside, with this process's terminal, and resolves with its exit status. */
export async function seclude(command: readonly string[]): Promise<number> {
  const child = new Deno.Command("unshare", {
    args: ["--mount", "--net", "--pid", "--fork", "--kill-child", "--mount-proc", "sh", "-c", INSIDE, "sh", ...command],
    env: { [MARK]: "1" },
    stdin: "null",
  }).spawn();
  const end = () => child.kill("SIGKILL");
  for (const signal of ["SIGINT", "SIGTERM", "SIGHUP"] as const) Deno.addSignalListener(signal, end);
  const { code } = await child.status;
  for (const signal of ["SIGINT", "SIGTERM", "SIGHUP"] as const) Deno.removeSignalListener(signal, end);
  return code;
}

/**
 * Has the packages of these modules downloaded: inside, there is no way out.
 * @throws with what deno said where they cannot be
 */
export async function fetchPackages(modules: readonly string[]): Promise<void> {
  const { code, stderr } = await new Deno.Command(Deno.execPath(), { args: ["cache", ...modules], stdin: "null" })
    .output();
  if (code !== 0) throw new Error(`the packages cannot be fetched:\n${new TextDecoder().decode(stderr).trim()}`);
}
