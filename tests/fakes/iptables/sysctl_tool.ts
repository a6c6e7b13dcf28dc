import type { ToolResult } from "../../../backends/tools/runner.ts";
import { Unsupported } from "./errors.ts";

/** The sysctls by dotted name, and their tool. */
export interface SysctlTool {
  readonly values: Map<string, string>;
  /** Sysctls that refuse new values. */
  readonly refusing: Set<string>;
  run(args: readonly string[]): ToolResult;
}

/** Fakes sysctl of procps 4.0.2: a missing sysctl sets the exit status, a refused value does not. */
export function createSysctlTool(): SysctlTool {
  const values = new Map<string, string>();
  const refusing = new Set<string>();
  return {
    values,
    refusing,
    run(args) {
      let stdout = "", stderr = "", exitCode = 0;
      let printsNames = true, writes = false, ignoresMissing = false;
      for (const arg of args) {
        if (arg === "-n") printsNames = false;
        else if (arg === "-w") writes = true;
        else if (arg === "-e") ignoresMissing = true;
        else if (arg.startsWith("-")) throw new Unsupported(`sysctl ${arg}`);
        else {
          const equals = arg.indexOf("=");
          if (writes && equals < 0) throw new Unsupported(`sysctl -w ${arg}`);
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
          stdout += `${printsNames ? `${name} = ` : ""}${values.get(name)}\n`;
        }
      }
      return { exitCode, stdout, stderr };
    },
  };
}
