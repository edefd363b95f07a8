/** Mistakes of policy authors, each with what Gatehouse says. Tests feed them, and docs/reference/mistakes.md is generated from them. */
export interface Mistake {
  /** What the author did. */
  readonly mistake: string;
  /** The spec of the policy in YAML. Without `match`, it governs servers. */
  readonly spec: string;
  /** The problems, each with its field. */
  readonly says: readonly string[];
  /** The line of the problem, without indentation. */
  readonly line: string;
  /** Whether the API server refuses or drops it before Gatehouse sees the policy. */
  readonly isSeenByApiServer?: true;
}

const indented = (text: string, by: string): string =>
  text
    .trimEnd()
    .split('\n')
    .map((line) => `${by}${line}`)
    .join('\n');

const MATCH = '  match: { apiGroups: [infra.example.com], resources: [servers] }\n';

/** The whole policy. */
export function policyText({ spec }: Pick<Mistake, 'spec'>, name: string): string {
  const match = /^match:/m.test(spec) ? '' : MATCH;
  return [
    'apiVersion: gatehouse.dev/v1alpha1',
    'kind: AdmissionPolicy',
    'metadata:',
    `  name: ${name}`,
    'spec:',
    `${match}${indented(spec, '  ')}`,
    '',
  ].join('\n');
}

export const notFound = (field: string, of: string, meant: string): string =>
  `field ${field} not found in ${of}: did you mean ${meant}?`;

/** A policy with one rule. */
export const rule = (mistake: string, expression: string, says: string, variables = ''): Mistake => {
  const line = `- expression: ${/^[\w!(][^:#]*$/.test(expression) ? expression : JSON.stringify(expression)}`;
  return {
    mistake,
    spec: `${variables}validate:\n  rules:\n    ${line}`,
    says: [`spec.validate.rules[0].expression: ${says}`],
    line,
  };
};
