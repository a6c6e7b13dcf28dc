import { boolean, duration, flagValue, option, text } from "../../config/mod.ts";
import { answersOf, type Command, printAs, PROXY_STATUS, TEXT_OR_JSON } from "./command.ts";

const FROM = {
  ...option("from", text(), "Client: pod, node, outside or an address; all three kinds by default."),
  suggestions: ["pod", "node", "outside"],
};
const DEFAULT_TIMEOUT_MS = 30_000;
const TRACE = option(
  "trace",
  boolean(),
  "Follow the next connection to it through the kernel, and print each rule that it meets.",
);
const TIMEOUT = option(
  "timeout",
  duration(),
  "How long to wait for an answer of the proxy (5s by default), or with --trace for a connection (30s).",
);

/** `sluice explain`: where a connection goes, and why. */
export const explainCommand: Command = {
  name: "explain",
  summary: "Explain where a connection goes: service, policies, endpoints, rules.",
  arguments: [{
    name: "DESTINATION",
    description: "ADDRESS[:PORT], [IPV6-ADDRESS][:PORT], [NAMESPACE/]SERVICE[:PORT], SERVICE.NAMESPACE[:PORT] or " +
      "NODE:NODEPORT, followed by /udp or /sctp unless it is TCP",
    required: true,
    completes: "service",
  }],
  flags: [FROM, TRACE, TIMEOUT, option("all", boolean(), "Show every endpoint and every rule."), ...TEXT_OR_JSON],
  installed: { part: "configuration" },
  startsPrograms: true,
  exitStatuses: { 1: "failed, or with --trace no connection in time", ...PROXY_STATUS },
  examples: {
    "sluice explain 10.96.0.10:80": "from a pod on this node, from the node and from outside",
    "sluice explain default/web":
      "by the name of a service: every port of its cluster IPs; web suffices if no other namespace has one",
    "sluice explain 10.96.0.10": "every port of services at an address",
    "sluice explain 203.0.113.9:443 --from 198.51.100.7": "for one client address",
    "sluice explain 10.96.0.10:53/udp --source file:services.yaml": "without a running proxy",
    "sluice explain --trace 10.96.0.10:80": "the next real connection, rule by rule",
  },
  async start(invocation) {
    const { flags, arguments: [destination = ""] } = invocation;
    const { explanationText } = await import("../text/mod.ts");
    const { isAddressAndPort, readQuestion } = await import("../../answers/mod.ts");
    const answers = await answersOf(invocation);
    const from = flagValue(flags, FROM);
    // A name has a question for each port and family.
    const questions = isAddressAndPort(destination)
      ? [readQuestion(destination, from)]
      : await answers.resolve(destination, from);
    if (flagValue(flags, TRACE) === true) {
      const { traceConnection } = await import("./explain_trace.ts");
      const timeoutMs = flagValue(flags, TIMEOUT) ?? DEFAULT_TIMEOUT_MS;
      return await traceConnection(invocation, answers, questions, timeoutMs);
    }
    const explanations = await Promise.all(questions.map((question) => answers.explain(question)));
    const all = flags.get("all") === true;
    printAs(
      invocation,
      explanations.length === 1 ? explanations[0] : explanations,
      () => explanations.map((one) => explanationText(one, all)).join("\n"),
    );
    return 0;
  },
};
