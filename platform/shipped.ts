/** The files that are shipped with the program: in the source tree, or inside the executable. */

/** What is shipped, by where it is in the source tree; `compile.sh` puts it beside the executable's code. */
const SHIPPED = {
  "sluice.service": "../deploy/sluice.service",
  "config.yaml": "../deploy/config.yaml",
} as const;

/** Whether this program runs from source, and not from an executable. */
export function runsFromSource(): boolean {
  return import.meta.url.endsWith(".ts");
}

/** The text of a file that is shipped with the program. */
export function shippedText(name: keyof typeof SHIPPED): string {
  return Deno.readTextFileSync(new URL(runsFromSource() ? SHIPPED[name] : `./${name}`, import.meta.url));
}
