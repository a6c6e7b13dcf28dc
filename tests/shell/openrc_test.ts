/** The command line of the OpenRC script, as a shell reads it. */
import assert from "node:assert/strict";
import { scriptWith } from "../../cli/installation/files.ts";

Deno.test("the script passes each word to the program unchanged", async () => {
  const words = ["--source=file:/a b", `--control-socket=/$HOME/"x"/it's\\\`id\``];
  const script = scriptWith(await Deno.readTextFile(new URL("../../deploy/sluice.openrc", import.meta.url)), words);
  const line = script.split("\n").find((line) => line.startsWith("command_args="))!;
  // As OpenRC's supervise-daemon.sh does.
  const text = `${line}; eval "set -- $command_args"; printf '%s\\n' "$@"`;
  const { stdout } = await new Deno.Command("bash", { args: ["--posix", "-c", text] }).output();
  const shipped = [
    "--config",
    "/etc/sluice/config.yaml",
    "--state-directory",
    "/var/lib/sluice",
    "--logging-format",
    "text",
  ];
  assert.deepEqual(new TextDecoder().decode(stdout).trimEnd().split("\n"), [...shipped, ...words]);
});
