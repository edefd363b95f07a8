import type { KubeObject } from '../../json/kube-object.ts';
import { shorten } from '../../json/printable.ts';
import type { CompiledPolicy } from '../policy/compiled-policy.ts';
import type { Violation } from '../policy/violation.ts';

/** One violation of one object. The namespace of a cluster-scoped object is empty. */
export interface Finding {
  readonly namespace: string;
  readonly apiVersion: string;
  readonly kind: string;
  readonly name: string;
  /** The name of the reference, unique value or rule; otherwise the field. */
  readonly rule: string | undefined;
  readonly message: string;
}

export interface PolicyFindings {
  readonly policy: string;
  readonly enforcement: CompiledPolicy['enforcement'];
  /** Number of all violations in each namespace; the key of cluster-scoped objects is empty. */
  readonly counts: ReadonlyMap<string, number>;
  readonly listed: readonly Finding[];
  readonly problem: string | undefined;
}

const LONGEST_MESSAGE = 256;
const LONGEST_RULE = 128;

/** @param limit for the listed findings; all violations are counted */
export function collectFindings(policy: Pick<CompiledPolicy, 'name' | 'enforcement'>, limit: number) {
  const counts = new Map<string, number>();
  const listed: Finding[] = [];
  return {
    add: (object: KubeObject, violations: readonly Violation[]): void => {
      const { namespace = '' } = object.metadata ?? {};
      counts.set(namespace, (counts.get(namespace) ?? 0) + violations.length);
      for (const violation of violations)
        if (listed.length < limit) listed.push(toFinding(object, namespace, violation));
    },
    end: (problem: string | undefined): PolicyFindings => ({
      policy: policy.name,
      enforcement: policy.enforcement,
      counts,
      listed,
      problem,
    }),
  };
}

function toFinding(
  { apiVersion = '', kind = '', metadata }: KubeObject,
  namespace: string,
  { field, check, message }: Violation,
): Finding {
  const rule = check ?? (field === '' ? undefined : field);
  const text = field === '' ? message : `${field}: ${message}`;
  return {
    namespace,
    apiVersion,
    kind,
    name: metadata?.name ?? '',
    rule: rule === undefined ? undefined : shorten(rule, LONGEST_RULE),
    message: shorten(text, LONGEST_MESSAGE),
  };
}
