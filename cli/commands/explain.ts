import { boolean, option, text } from "../../config/mod.ts";
import { answersOf } from "./answer_source.ts";
import { type Command, jsonText, usageError } from "./command.ts";
import { outputFlags, outputOf } from "./output.ts";

const OUTPUT = outputFlags(["text", "json"]);

/** `sluice explain`: where a connection goes, and why. */
export const explainCommand: Command = {
  name: "explain",
  summary: "Explain where a connection goes: service, policies, endpoints, rules.",
  arguments: [{
    name: "ADDRESS:PORT[/PROTOCOL]",
    description: "destination; [ADDRESS]:PORT for IPv6, TCP by default, or /udp or /sctp",
    required: true,
  }],
  flags: [
    option("from", text(), "Client: pod, node, outside or an address; all three kinds by default."),
    option("all", boolean(), "Show every endpoint and every rule."),
    ...OUTPUT.flags,
  ],
  examples: [
    { line: "sluice explain 10.96.0.10:80", does: "from a pod on this node, from the node and from outside" },
    { line: "sluice explain 203.0.113.9:443 --from 198.51.100.7", does: "for one client address" },
    { line: "sluice explain 10.96.0.10:53/udp --source file:services.yaml", does: "without a running proxy" },
  ],
  async start(invocation) {
    const output = outputOf(invocation, OUTPUT);
    const { QuestionError, readQuestion } = await import("../../answers/mod.ts");
    const { explanationText } = await import("../text/mod.ts");
    let question;
    try {
      question = readQuestion(invocation.arguments[0]!, invocation.flags.get("from") as string | undefined);
    } catch (error) {
      if (!(error instanceof QuestionError)) throw error;
      return usageError(error.message);
    }
    const explanation = await (await answersOf(invocation)).explain(question);
    const all = invocation.flags.get("all") === true;
    invocation.print(output === "json" ? jsonText(explanation) : explanationText(explanation, { all }));
    return 0;
  },
};
