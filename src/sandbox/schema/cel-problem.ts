import { CelError } from '../../admission/cel/cel.ts';

/** Functions and macros of the API server's CEL libraries that ours does not have. */
const LACKING = new Set(
  [
    'isSorted sum min max', // lists
    'find findAll', // regular expressions
    'url isURL getScheme getHost getHostname getPort getEscapedPath getQuery',
    'quantity isQuantity sign isInteger asInteger asApproximateFloat add sub isLessThan isGreaterThan compareTo',
    'ip isIP isCanonical family isUnspecified isLoopback isLinkLocalMulticast isLinkLocalUnicast isGlobalUnicast',
    'cidr isCIDR containsIP containsCIDR prefixLength masked',
    'named validate', // of `format`, beside one function for each format
    'semver isSemver major minor patch',
    'charAt replace quote format reverse', // text
    'ofNonZeroValue optMap optFlatMap', // optionals
    'transformList transformMap transformMapEntry existsOne', // comprehensions with two variables
  ].flatMap((names) => names.split(' ')),
);

const NAMESPACED_CALL = /\b(?:sets|format)\.\w+(?=\s*\()/;
const CALL = /\b\w+(?=\s*\()/g;
const TWO_VARIABLES = /\.(?:all|exists)\(\s*\w+\s*,\s*\w+\s*,/;

/**
 * Why an expression does not compile, in the API server's words; where that is because the sandbox lacks what Kubernetes has,
 * it says so.
 *
 * @throws whatever is no CelError
 */
export function celProblem(expression: string, error: unknown): string {
  if (!(error instanceof CelError)) throw error;
  const lacking = lackingIn(expression);
  return `compilation failed: ${lacking === undefined ? error.message : `the sandbox does not have ${lacking}, which Kubernetes has`}`;
}

function lackingIn(expression: string): string | undefined {
  const name =
    NAMESPACED_CALL.exec(expression)?.[0] ?? (expression.match(CALL) ?? []).find((call) => LACKING.has(call));
  if (name !== undefined) return `the function ${name}`;
  return TWO_VARIABLES.test(expression) ? 'comprehensions with two variables' : undefined;
}
