/** `v`, major version, and for unstable versions their stage and its number. */
const KUBE_VERSION = /^v(\d+)(?:(alpha|beta)(\d+))?$/;

const STAGES = ['alpha', 'beta', 'stable'];

/** Higher comes first: [stage, major, number of the stage]. Undefined for names that are not of Kubernetes' form. */
function rank(version: string): readonly number[] | undefined {
  const [, major, stage = 'stable', minor = '0'] = KUBE_VERSION.exec(version) ?? [];
  return major === undefined ? undefined : [STAGES.indexOf(stage), Number(major), Number(minor)];
}

/**
 * Orders API versions by priority, the preferred first: GA before beta before alpha, then the higher number; names of any
 * other form come last, in alphabetical order. For `Array.sort`.
 *
 * @see https://kubernetes.io/docs/tasks/extend-kubernetes/custom-resources/custom-resource-definition-versioning/#version-priority
 */
export function compareVersions(left: string, right: string): number {
  const a = rank(left);
  const b = rank(right);
  if (a === undefined || b === undefined) {
    if (a === undefined && b === undefined) return left < right ? -1 : Number(left > right);
    return a === undefined ? 1 : -1;
  }
  for (const [index, value] of a.entries()) {
    const difference = (b[index] ?? 0) - value;
    if (difference !== 0) return difference;
  }
  return 0;
}
