/** The review of a cluster as tables, JSON and JUnit XML. docs/review.md documents the JSON. */
import type { ClusterReview, PolicyReview } from '../cluster/review-cluster.ts';
import type { Culprit } from '../../../runtime/policies/audit-scan.ts';
import { describeIdentity, type Identity } from '../review-result.ts';
import type { JunitCase, JunitSuite } from './junit.ts';
import { printable } from '../../../json/printable.ts';
import { formatTable, paint } from '../../terminal/output.ts';

export function clusterTable({ policies }: ClusterReview, colours: boolean): string {
  const rows = policies.flatMap((review) =>
    review.culprits.map((culprit) => ({
      cells: [describeIdentity(identityOf(culprit)), review.policy],
      lines: linesOf(culprit),
    })),
  );
  const totals = policies.map(({ policy, enforcement, checked, culprits, incomplete }) => ({
    cells: [
      policy,
      enforcement,
      String(checked),
      { text: String(culprits.length), colour: culprits.length > 0 ? ('red' as const) : undefined },
      String(violationsOf(culprits)),
    ],
    lines: incomplete === undefined ? [] : [`incomplete: ${incomplete}`],
  }));
  return [
    ...(rows.length === 0 ? [] : [formatTable(['OBJECT', 'POLICY', 'VIOLATION'], rows, colours), '']),
    formatTable(['POLICY', 'ENFORCEMENT', 'CHECKED', 'OBJECTS', 'VIOLATIONS', ''], totals, colours),
    '',
    sentence(policies, colours),
    '',
  ].join('\n');
}

function sentence(policies: readonly PolicyReview[], colours: boolean): string {
  const { objects, violations, incomplete } = summaryOf(policies);
  const found =
    violations === 0
      ? paint({ text: 'no violations', colour: 'green' }, colours)
      : paint({ text: `${violations} violations in ${objects} objects`, colour: 'red' }, colours);
  return incomplete === 0
    ? found
    : `${found}; ${paint({ text: `${incomplete} of ${policies.length} policies incomplete`, colour: 'yellow' }, colours)}`;
}

function summaryOf(policies: readonly PolicyReview[]) {
  const culprits = policies.flatMap((review) => review.culprits);
  return {
    policies: policies.length,
    objects: new Set(culprits.map((culprit) => JSON.stringify(identityOf(culprit)))).size,
    violations: violationsOf(culprits),
    incomplete: policies.filter(({ incomplete }) => incomplete !== undefined).length,
  };
}

const violationsOf = (culprits: readonly Culprit[]): number =>
  culprits.reduce((sum, { violations }) => sum + violations.length, 0);

function identityOf({ object: { apiVersion = '', kind = '', metadata = {} } }: Culprit): Identity {
  const { name = '', namespace } = metadata;
  return { apiVersion, kind, namespace, name };
}

const linesOf = ({ violations }: Culprit): readonly string[] =>
  violations.map(({ field, message }) => (field === '' ? message : `${field}: ${message}`));

export function clusterJson({ policies, notes }: ClusterReview): object {
  return {
    kind: 'ClusterReview',
    summary: summaryOf(policies),
    notes,
    policies: policies.map(({ policy, enforcement, checked, culprits, incomplete }) => ({
      name: policy,
      enforcement,
      checked,
      objects: culprits.length,
      violations: violationsOf(culprits),
      incomplete,
    })),
    results: policies.flatMap(({ policy, culprits }) =>
      culprits.map((culprit) => ({
        object: identityOf(culprit),
        policy,
        violations: culprit.violations.map(({ check, field, message }) => ({ check, field, message })),
      })),
    ),
  };
}

export function clusterJunit({ policies }: ClusterReview): readonly JunitSuite[] {
  return policies.map((review) => ({ name: `AdmissionPolicy ${review.policy}`, cases: casesOf(review) }));
}

/** One case per object with violations, and one for all others. */
function casesOf({ policy, checked, culprits, incomplete }: PolicyReview): readonly JunitCase[] {
  const base = { className: policy, output: [] };
  return [
    ...culprits.map((culprit) => {
      const lines = linesOf(culprit);
      const failure = { message: lines.join('; '), details: lines.join('\n') };
      return { ...base, name: describeIdentity(identityOf(culprit)), failure };
    }),
    {
      ...base,
      name: `${checked - culprits.length} objects without violations`,
      ...(incomplete === undefined ? {} : { error: printable(incomplete) }),
    },
  ];
}
