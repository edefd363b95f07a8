/** The review of a cluster as tables, JSON and JUnit XML. docs/review.md documents the JSON. */
import type { ClusterReview, PolicyReview } from '../cluster/review-cluster.ts';
import type { Violator } from '../../../runtime/policies/audit-scan.ts';
import { describeIdentity, type Identity } from '../review-result.ts';
import type { JunitCase, JunitSuite } from './junit.ts';
import { counted } from '../../../json/counted.ts';
import { printable } from '../../../json/printable.ts';
import { formatTable, paint } from '../../terminal/output.ts';

export function clusterTable({ policies }: ClusterReview, colours: boolean): string {
  const rows = policies.flatMap((review) =>
    review.violators.map((violator) => ({
      cells: [describeIdentity(identityOf(violator)), review.policy],
      lines: linesOf(violator),
    })),
  );
  const totals = policies.map(({ policy, enforcement, checked, violators, incomplete }) => ({
    cells: [
      policy,
      enforcement,
      String(checked),
      { text: String(violators.length), colour: violators.length > 0 ? ('red' as const) : undefined },
      String(violationsOf(violators)),
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
  const found = paint(
    violations === 0
      ? { text: 'no violations', colour: 'green' }
      : { text: `${counted(violations, 'violation')} in ${counted(objects, 'object')}`, colour: 'red' },
    colours,
  );
  if (incomplete === 0) return found;
  const text = `${incomplete} of ${counted(policies.length, 'policy')} incomplete`;
  return `${found}; ${paint({ text, colour: 'yellow' }, colours)}`;
}

function summaryOf(policies: readonly PolicyReview[]) {
  const violators = policies.flatMap((review) => review.violators);
  return {
    policies: policies.length,
    objects: new Set(violators.map((violator) => JSON.stringify(identityOf(violator)))).size,
    violations: violationsOf(violators),
    incomplete: policies.filter(({ incomplete }) => incomplete !== undefined).length,
  };
}

const violationsOf = (violators: readonly Violator[]): number =>
  violators.reduce((sum, { violations }) => sum + violations.length, 0);

function identityOf({ object: { apiVersion = '', kind = '', metadata = {} } }: Violator): Identity {
  const { name = '', namespace } = metadata;
  return { apiVersion, kind, namespace, name };
}

const linesOf = ({ violations }: Violator): readonly string[] =>
  violations.map(({ field, message }) => (field === '' ? message : `${field}: ${message}`));

export function clusterJson({ policies, notes }: ClusterReview): object {
  return {
    kind: 'ClusterReview',
    summary: summaryOf(policies),
    notes,
    policies: policies.map(({ policy, enforcement, checked, violators, incomplete }) => ({
      name: policy,
      enforcement,
      checked,
      objects: violators.length,
      violations: violationsOf(violators),
      incomplete,
    })),
    results: policies.flatMap(({ policy, violators }) =>
      violators.map((violator) => ({
        object: identityOf(violator),
        policy,
        violations: violator.violations.map(({ check, field, message }) => ({ check, field, message })),
      })),
    ),
  };
}

export function clusterJunit({ policies }: ClusterReview): readonly JunitSuite[] {
  return policies.map((review) => ({ name: `AdmissionPolicy ${review.policy}`, cases: casesOf(review) }));
}

/** One case per object with violations, and one for all others. */
function casesOf({ policy, checked, violators, incomplete }: PolicyReview): readonly JunitCase[] {
  const base = { className: policy, output: [] };
  return [
    ...violators.map((violator) => {
      const lines = linesOf(violator);
      const failure = { message: lines.join('; '), details: lines.join('\n') };
      return { ...base, name: describeIdentity(identityOf(violator)), failure };
    }),
    {
      ...base,
      name: `${counted(checked - violators.length, 'object')} without violations`,
      ...(incomplete === undefined ? {} : { error: printable(incomplete) }),
    },
  ];
}
