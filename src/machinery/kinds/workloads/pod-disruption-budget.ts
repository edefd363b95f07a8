import type { JsonValue } from '../../../json/json.ts';
import type { ApiObject } from '../../api-object.ts';
import { record, text, number, spec, status, value, withFields } from '../../fields.ts';
import type { Cause } from '../../failure.ts';
import type { PrinterColumn, ResourceType } from '../../resource-type.ts';
import { invalidValue, unsupportedValue } from '../../schema/causes.ts';
import { AGE, builtInKind } from '../built-in-kind.ts';
import { selectorProblems } from '../label-problems.ts';
import {
  CONDITIONS,
  INT32,
  INT64,
  INT_OR_STRING,
  LABEL_SELECTOR,
  mapOf,
  object,
  STRING,
  TIME,
  withDefault,
} from '../schema-builders.ts';

/** policy/v1 PodDisruptionBudget: stored; the sandbox does not evict pods. */
export const POD_DISRUPTION_BUDGET: ResourceType = builtInKind({
  apiVersion: 'policy/v1',
  kind: 'PodDisruptionBudget',
  resource: 'poddisruptionbudgets',
  namespaced: true,
  shortNames: ['pdb'],
  description: 'How many of some pods may be away at a time.',
  fields: {
    spec: withDefault(
      object({
        minAvailable: INT_OR_STRING,
        selector: { ...LABEL_SELECTOR, 'x-kubernetes-patch-strategy': 'replace' },
        maxUnavailable: INT_OR_STRING,
        unhealthyPodEvictionPolicy: STRING,
      }),
      {},
    ),
    status: object({
      observedGeneration: INT64,
      disruptedPods: mapOf(TIME),
      disruptionsAllowed: INT32,
      currentHealthy: INT32,
      desiredHealthy: INT32,
      expectedPods: INT32,
      conditions: CONDITIONS,
    }),
  },
  columns: [
    shareColumn('Min Available', 'How many pods must be there.', 'minAvailable'),
    shareColumn('Max Unavailable', 'How many pods may be away.', 'maxUnavailable'),
    {
      name: 'Allowed Disruptions',
      type: 'integer',
      description: 'How many pods may be evicted now.',
      value: (budget) => number(status(budget), 'disruptionsAllowed') ?? 0,
    },
    AGE,
  ],
  hasStatus: true,
  strategy: {
    countsGenerations: true,
    prepareForCreate: (budget) =>
      withFields(budget, {
        status: { disruptionsAllowed: 0, currentHealthy: 0, desiredHealthy: 0, expectedPods: 0 },
      }),
    validate: budgetProblems,
  },
});

function shareColumn(name: string, description: string, field: string): PrinterColumn {
  return { name, type: 'string', description, value: (budget) => shownShare(value(spec(budget), field)) };
}

const shownShare = (share: JsonValue | undefined) =>
  typeof share === 'string' || typeof share === 'number' ? String(share) : 'N/A';

const EVICTION_POLICIES = ['AlwaysAllow', 'IfHealthyBudget'];

/**
 * Follows ValidatePodDisruptionBudgetSpec of pkg/apis/policy/validation; the message prints the API server's own
 * struct.
 */
function budgetProblems(budget: ApiObject): readonly Cause[] {
  const given = spec(budget);
  const [least, most] = [value(given, 'minAvailable'), value(given, 'maxUnavailable')];
  const policy = text(given, 'unhealthyPodEvictionPolicy');
  const shown = {
    MinAvailable: least ?? null,
    Selector: value(given, 'selector') ?? null,
    MaxUnavailable: most ?? null,
    UnhealthyPodEvictionPolicy: policy === '' ? null : policy,
  };
  return [
    ...(least !== undefined && most !== undefined
      ? [invalidValue('spec', shown, 'minAvailable and maxUnavailable cannot be both set')]
      : []),
    ...shareProblems(least, 'spec.minAvailable'),
    ...shareProblems(most, 'spec.maxUnavailable'),
    ...selectorProblems(record(given, 'selector') ?? {}, 'spec.selector'),
    ...(policy === '' || EVICTION_POLICIES.includes(policy)
      ? []
      : [unsupportedValue('spec.unhealthyPodEvictionPolicy', policy, EVICTION_POLICIES)]),
  ];
}

/** A number or a percentage of pods. */
function shareProblems(share: JsonValue | undefined, field: string): readonly Cause[] {
  if (typeof share === 'number' && share < 0) {
    return [invalidValue(field, share, 'must be greater than or equal to 0')];
  }
  if (typeof share !== 'string') return [];
  if (!/^[0-9]+%$/.test(share)) {
    return [
      invalidValue(
        field,
        share,
        "a valid percent string must be a numeric string followed by an ending '%' " +
          "(e.g. '1%',  or '93%', regex used for validation is '[0-9]+%')",
      ),
    ];
  }
  return parseInt(share, 10) <= 100 ? [] : [invalidValue(field, share, 'must not be greater than 100%')];
}
