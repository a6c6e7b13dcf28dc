/** The connection to explain: where it goes and why, as from `sluice explain`. */
import {
  type Answers,
  clientText,
  endpointText,
  type ExplainedRules,
  type ExplainedService,
  type Explanation,
  fateText,
  isAddressAndPort,
  masqueradeTexts,
  NotReadyError,
  type Outcome,
  QuestionError,
  readQuestion,
  sinceText,
} from "../mod.ts";
import type { StateWords } from "../status/mod.ts";
import { plural } from "../../platform/mod.ts";
import { endpointTable, type View } from "./services.ts";
import { type Html, html, row } from "./html.ts";

const MOST_DESTINATIONS = 4;
const MOST_ENDPOINTS = 50;

/** The explanation of the view's connection; nothing if it has none. */
export async function explanationPart(
  { to, from }: Pick<View, "to" | "from">,
  answers: Pick<Answers, "explain" | "resolve">,
): Promise<Html> {
  if (to === "") return html``;
  const client = from === "" ? undefined : from;
  try {
    const questions = isAddressAndPort(to) ? [readQuestion(to, client)] : await answers.resolve(to, client);
    const shown = questions.slice(0, MOST_DESTINATIONS), left = questions.length - shown.length;
    const explanations = await Promise.all(shown.map((question) => answers.explain(question)));
    return html`${explanations.map(explanationOf)}${
      left > 0 && html`<p class="quiet">and ${plural(left, "more destination")}: add a port to the name</p>`
    }`;
  } catch (error) {
    if (error instanceof QuestionError || error instanceof NotReadyError) {
      return html`<p class="note">${error.message}</p>`;
    }
    throw error;
  }
}

function explanationOf({ destination, mode, service, outcomes, remarks }: Explanation): Html {
  const { address, port, protocol } = destination;
  return html`<article class="explanation"><h3><code>${endpointText(address, port, protocol)}</code> ${
    service
      ? html`is ${service.frontendText} of <strong>${service.name}</strong> (${service.type})`
      : "no service has this address and port"
  }</h3>
${remarks.map((remark) => html`<p class="note">${remark}</p>`)}
<ul class="outcomes">${outcomes.map((outcome) => outcomeRow(outcome, mode))}</ul>
${service && serviceDetails(service)}</article>`;
}

const TONES: Readonly<Record<Outcome["fate"], StateWords["tone"]>> = {
  balanced: "good",
  untouched: "idle",
  rejected: "bad",
  dropped: "bad",
};

function outcomeRow(outcome: Outcome, mode: string): Html {
  const { from, onlySources } = outcome;
  return html`
    <li
      class="${TONES[outcome.fate]}"><span class="dot"></span><span>From ${clientText(from)}: <strong>${fateText(
        outcome,
        mode,
      )}</strong>${onlySources &&
        html`<br><span class="quiet">only from ${
          onlySources.join(", ")
        }; other sources are dropped</span>`}${masqueradeTexts(outcome).map((line) =>
          html`<br><span class="quiet">${line}</span>`
        )}</span></li>
  `;
}

function serviceDetails({ name, frontendText, policies, endpoints, rules }: ExplainedService): Html {
  const used = endpoints.filter((endpoint) => endpoint.used).length;
  const outFirst = [...endpoints].sort((a, b) => Number(a.used) - Number(b.used)).slice(0, MOST_ENDPOINTS);
  const key = `explained ${name} ${frontendText}`;
  return html`<dl class="rows policies">${
    policies.map(({ name, value, effect }) => row(html`<code>${name} ${value}</code>`, effect))
  }</dl>
<details data-key="${key} endpoints" open><summary>${used} of ${plural(endpoints.length, "endpoint")} in use</summary>
${endpoints.length > 0 && endpointTable(outFirst)}</details>
${rules && rulesOf(rules, `${key} rules`)}`;
}

function rulesOf(rules: ExplainedRules, key: string): Html {
  const text = rules.parts.map(({ place, lines }, i) =>
    (place === rules.parts[i - 1]?.place ? [] : [place]).concat(lines.map((line) => `  ${line}`)).join("\n")
  ).join("\n");
  return html`<details data-key="${key}"><summary>Rules (${sinceText(rules)})</summary>${
    rules.problem !== undefined && html`<p class="note">not in effect: ${rules.problem}</p>`
  }<pre>${text}</pre></details>`;
}
