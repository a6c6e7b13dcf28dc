/** Sluice as a plugin of kubectl: the executable under the name `kubectl-sluice`. */

/** The name under which kubectl finds a plugin on the PATH and starts it (`kubectl sluice`). */
const PLUGIN = "kubectl-sluice";

/** The names under which this program may have been started: as called, and of its file. */
export function programNames(): readonly string[] {
  // A symbolic link has only the first name. `process` is Node's, without an import that would load more of it.
  const { process } = globalThis as { readonly process?: { readonly argv0?: string } };
  return [process?.argv0 ?? "", Deno.execPath()];
}

/** The arguments of Sluice for those given under one of these names; a plugin's are those of `sluice cluster`. */
export function argumentsUnder(names: readonly string[], args: readonly string[]): readonly string[] {
  const isPlugin = names.some((name) => name.slice(name.lastIndexOf("/") + 1) === PLUGIN);
  if (!isPlugin || args[0] === "version") return args;
  return args.length === 0 || args[0] === "help" ? ["help", "cluster"] : ["cluster", ...args];
}
