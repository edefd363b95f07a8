/** Metrics of what policies found among stored objects. */
import { Gauge, type Registry } from 'prom-client';

type PolicyViolations = () => readonly { readonly policy: string; readonly total: number }[];

export interface PolicyMetrics {
  /** Asked at each scrape; undefined: this replica no longer leads, so it has nothing to say of them. */
  readonly policyViolations: (violations: PolicyViolations | undefined) => void;
}

/** Absent on replicas that do not lead: who does not look must not say that all is well. */
export function createPolicyMetrics(registers: Registry[]): PolicyMetrics {
  let current: PolicyViolations | undefined;
  new Gauge({
    name: 'gatehouse_policy_violations',
    help: 'Violations among the objects that are stored, by policy, as of its last audit.',
    labelNames: ['policy'],
    registers,
    collect() {
      this.reset();
      for (const { policy, total } of current?.() ?? []) this.set({ policy }, total);
    },
  });
  return {
    policyViolations: (violations) => {
      current = violations;
    },
  };
}
