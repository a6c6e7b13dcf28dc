import type { ToolResult } from "../../../backends/tools/runner.ts";
import { Uninterpreted } from "./errors.ts";

/** Settings of the kernel by dotted name, and the tool that shows and changes them. */
export interface SysctlTool {
  readonly values: Map<string, string>;
  /** Settings whose every new value the kernel refuses. */
  readonly refusing: Set<string>;
  run(args: readonly string[]): ToolResult;
}

/** sysctl of procps 4.0.2: a setting that is not there counts against the exit status, a refused value does not. */
export function createSysctlTool(): SysctlTool {
  const values = new Map<string, string>();
  const refusing = new Set<string>();
  return {
    values,
    refusing,
    run(args) {
      let stdout = "", stderr = "", exitCode = 0;
      let namesToo = true, writes = false, ignoresMissing = false;
      for (const arg of args) {
        if (arg === "-n") namesToo = false;
        else if (arg === "-w") writes = true;
        else if (arg === "-e") ignoresMissing = true;
        else if (arg.startsWith("-")) throw new Uninterpreted(`sysctl ${arg}`);
        else {
          const equals = arg.indexOf("=");
          if (writes && equals < 0) throw new Uninterpreted(`sysctl -w ${arg}`);
          const name = (equals < 0 ? arg : arg.slice(0, equals)).replaceAll("/", ".");
          const known = values.get(name);
          if (known === undefined) {
            if (ignoresMissing) continue;
            stderr += `sysctl: cannot stat /proc/sys/${name.replaceAll(".", "/")}: No such file or directory\n`;
            exitCode = 1;
            continue;
          }
          if (equals >= 0) {
            if (refusing.has(name)) {
              stderr += `sysctl: setting key "${name}": Invalid argument\n`;
              continue;
            }
            values.set(name, arg.slice(equals + 1));
          }
          stdout += `${namesToo ? `${name} = ` : ""}${values.get(name)}\n`;
        }
      }
      return { exitCode, stdout, stderr };
    },
  };
}
