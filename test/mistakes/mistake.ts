/** Mistakes of policy authors, each with what Gatehouse says. Tests feed them, and docs/reference/mistakes.md is generated from them. */
export interface Mistake {
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

/** In a spec in which LINE stands for one line. */
export const wrong = (mistake: string, line: string, spec: string, ...says: readonly string[]): Mistake => ({
  mistake,
  line,
  spec: spec.replace('LINE', () => line),
  says,
});

export const rule = (mistake: string, expression: string, says: string, variables = ''): Mistake => {
  const line = `- expression: ${/^[\w!(][^:#]*$/.test(expression) ? expression : JSON.stringify(expression)}`;
  return {
    mistake,
    spec: `${variables}validate:\n  rules:\n    ${line}`,
    says: [`spec.validate.rules[0].expression: ${says}`],
    line,
  };
};

export const immutable = (mistake: string, path: string, says: string): Mistake =>
  wrong(mistake, `- ${path}`, 'validate:\n  immutable:\n    LINE', `spec.validate.immutable[0]: ${says}`);

export const unique = (mistake: string, path: string, says: string): Mistake =>
  wrong(
    mistake,
    `paths: [${path.includes('*') ? JSON.stringify(path) : path}]`,
    'validate:\n  unique:\n    - name: one\n      LINE',
    `spec.validate.unique[0].paths[0]: ${says}`,
  );
