/**
 * Finds the mutations of a module: a plugin of `deno lint`, whose parser it uses. It reports each mutation as a `Change` in
 * JSON.
 *
 * Log messages, error texts and descriptions are left as they are.
 */

/** Replaces the text from `start` to `end`, UTF-16 offsets in the module, by `text`. */
export interface Change {
  readonly start: number;
  readonly end: number;
  readonly text: string;
}

type Node = Deno.lint.Node;

/** Operators and methods, and those that replace them. */
const OTHERS: ReadonlyMap<string, readonly string[]> = new Map(Object.entries({
  "===": ["!=="],
  "!==": ["==="],
  "<": ["<=", ">="],
  "<=": ["<", ">"],
  ">": [">=", "<="],
  ">=": [">", "<"],
  "+": ["-"],
  "-": ["+"],
  "*": ["/"],
  "/": ["*"],
  "%": ["*"],
  "**": ["*"],
  "&": ["|"],
  "|": ["&"],
  "<<": [">>"],
  ">>": ["<<"],
  ">>>": ["<<"],
  "&&": ["||"],
  "||": ["&&"],
  "+=": ["-="],
  "-=": ["+="],
  "??=": ["="],
  "++": ["--"],
  "--": ["++"],
  min: ["max"],
  max: ["min"],
  some: ["every"],
  every: ["some"],
  startsWith: ["endsWith"],
  endsWith: ["startsWith"],
}));

/** Methods whose result is replaced by their object. */
const OPTIONAL_METHODS = new Set(["filter", "slice", "sort", "toSorted", "reverse", "toReversed", "trim", "flat"]);

/** Numbers up to this one are moved by 1, others are multiplied: most of them are durations and sizes. */
const MOST_COUNTED = 10;
const FACTOR = 10;

const LOGS = /\b(logger|console)$/;
const DESCRIPTIONS = new Set([
  "title",
  "fix",
  "help",
  "description",
  "meaning",
  "detail",
  "reason",
  "message",
  "usage",
]);

/** Whether a node with these ancestors, the nearest last, is part of a message for people. */
function isMessage(node: Deno.lint.Node, ancestors: readonly Deno.lint.Node[]): boolean {
  for (const one of [node, ...ancestors.toReversed()]) {
    if (one.type === "ThrowStatement") return one !== node;
    if (one.type === "NewExpression" && one.callee.type === "Identifier" && one.callee.name.endsWith("Error")) {
      return true;
    }
    if (one.type === "CallExpression" && isLog(one)) return true;
    if (one.type === "Property" && one.key.type === "Identifier" && DESCRIPTIONS.has(one.key.name)) return true;
    if (one.type === "ArrowFunctionExpression" || one.type === "FunctionDeclaration") return false;
  }
  return false;
}

function isLog({ callee }: Deno.lint.CallExpression): boolean {
  if (callee.type !== "MemberExpression") return false;
  const { object } = callee;
  const name = object.type === "MemberExpression" ? object.property : object;
  return name.type === "Identifier" && LOGS.test(name.name);
}

/** Whether a node is the test of a statement, which is negated as a whole. */
function isTest({ parent, range: [start] }: Deno.lint.BinaryExpression | Deno.lint.UnaryExpression): boolean {
  return (parent.type === "IfStatement" || parent.type === "ConditionalExpression") && parent.test.range[0] === start;
}

const isText = ({ type, ...node }: Node) =>
  type === "TemplateLiteral" || type === "Literal" && "value" in node && typeof node.value === "string";

/** Whether a missing value usually has the same effect as this one. */
const isNothing = (node: Node) =>
  node.type === "Identifier" && node.name === "undefined" || node.type === "Literal" && node.value === false;

/** Reports the mutations of a module. */
export const plugin: Deno.lint.Plugin = {
  name: "mutants",
  rules: {
    mutations: {
      create(context) {
        const textOf = (node: Node) => context.sourceCode.getText(node);
        const change = (node: Node, text: string, [start, end] = node.range) => {
          if (
            text === context.sourceCode.text.slice(start, end) || isMessage(node, context.sourceCode.getAncestors(node))
          ) return;
          context.report({ node, message: JSON.stringify({ start, end, text } satisfies Change) });
        };
        const remove = (node: Node) => change(node, "{}");
        const negate = (test: Node) => change(test, `!(${textOf(test)})`);
        const replaceOperator = (node: Node, { range: [, left] }: Node, { range: [right] }: Node, operator: string) => {
          const between = context.sourceCode.text.slice(left, right), at = left + between.indexOf(operator);
          for (const other of OTHERS.get(operator) ?? []) change(node, other, [at, at + operator.length]);
        };
        const stopLoop = ({ test }: { readonly test: Node | null }) => test && change(test, "false");
        return {
          IfStatement: ({ test }) => negate(test),
          ConditionalExpression: ({ test }) => negate(test),
          WhileStatement: stopLoop,
          DoWhileStatement: stopLoop,
          ForStatement: stopLoop,
          LogicalExpression(node) {
            replaceOperator(node, node.left, node.right, node.operator);
            change(node, textOf(node.left));
            change(node, textOf(node.right));
          },
          BinaryExpression(node) {
            const { left, right, operator } = node;
            if (isTest(node) && (operator === "===" || operator === "!==")) return;
            if (operator === "+" && (isText(left as Node) || isText(right))) return;
            if (operator === "in" || operator === "instanceof") return isTest(node) ? undefined : negate(node);
            replaceOperator(node, left as Node, right, operator);
          },
          UnaryExpression(node) {
            const { operator, argument } = node;
            if (operator === "-" || operator === "!" && !isTest(node)) change(node, textOf(argument));
          },
          UpdateExpression(node) {
            const [start, end] = node.argument.range, [other] = OTHERS.get(node.operator)!;
            const argument = context.sourceCode.text.slice(start, end);
            change(node, node.prefix ? other + argument : argument + other);
          },
          AssignmentExpression: (node) => replaceOperator(node, node.left, node.right, node.operator),
          Literal(node) {
            const { value, parent } = node;
            if (parent.type.startsWith("TS") && parent.type !== "TSAsExpression") return;
            if (/^(Import|Export)/.test(parent.type) || parent.type === "Property" && parent.key === node) return;
            if (typeof value === "boolean") change(node, String(!value));
            else if (typeof value === "string") change(node, value === "" ? '"mutant"' : '""');
            else if (typeof value === "number") {
              // The plugin's tree has no value for 60_000.
              const number = Number(textOf(node).replaceAll("_", ""));
              const others = number <= MOST_COUNTED
                ? [number + 1, ...number > 0 ? [number - 1] : []]
                : [number * FACTOR];
              for (const other of others) change(node, String(other));
            }
          },
          TemplateLiteral(node) {
            const isPlain = node.parent.type !== "TaggedTemplateExpression" &&
              !node.parent.type.startsWith("TSLiteral");
            if (isPlain) change(node, "``");
          },
          ArrayExpression(node) {
            if (node.elements.length > 0) change(node, "[]");
          },
          Property(node) {
            if (node.parent.type !== "ObjectExpression" || isNothing(node.value as Node)) return;
            const end = context.sourceCode.text.slice(node.range[1]).match(/^\s*,/)?.[0].length ?? 0;
            change(node, "", [node.range[0], node.range[1] + end]);
          },
          CallExpression(node) {
            const { callee } = node;
            if (callee.type !== "MemberExpression" || callee.property.type !== "Identifier") return;
            const { object, property } = callee;
            for (const other of OTHERS.get(property.name) ?? []) change(node, other, property.range);
            if (OPTIONAL_METHODS.has(property.name)) change(node, textOf(object as Node));
          },
          ReturnStatement(node) {
            if (!node.argument) remove(node);
            else if (!isNothing(node.argument)) change(node.argument, "undefined");
          },
          ArrowFunctionExpression({ body }) {
            if (body.type !== "BlockStatement") change(body, "undefined");
          },
          ExpressionStatement(node) {
            if (node.expression.type !== "CallExpression" || !isLog(node.expression)) remove(node);
          },
          ThrowStatement: remove,
          ContinueStatement: remove,
          BreakStatement: remove,
        };
      },
    },
  },
};
