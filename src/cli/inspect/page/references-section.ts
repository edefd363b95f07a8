/** The section about references between kinds: a picture, and a table with the violations of each. */
import type { AdmissionPolicy } from '../../../api/admission-policy.ts';
import { html, type Html } from '../../../server/status-page/html.ts';
import { referencesOf, type KindReference } from './kind-references.ts';
import { badge, nothing, section, table } from './parts.ts';
import { referencesPicture } from './references-picture.ts';

export function referencesSection(policies: readonly AdmissionPolicy[]): Html {
  const references = policies.flatMap(referencesOf).toSorted(byKinds);
  const rows = references.map((one) => ({
    cells: [
      `${one.policy}: ${one.reference}`,
      `${one.from} ${one.path}`,
      one.to,
      one.onTargetDelete === 'Allow' ? '' : one.onTargetDelete,
      one.guarantee === 'BestEffort' ? '' : one.guarantee,
      one.violations === undefined
        ? html`<span>not counted yet</span>`
        : badge(String(one.violations), one.violations === 0 ? 'good' : 'warn'),
    ],
    isProblem: (one.violations ?? 0) > 0,
  }));
  return section(
    'references',
    html`References between kinds <span class="count">${rows.length}</span>`,
    rows.length === 0 ? nothing('No policy in force has a reference.') : undefined,
    referencesPicture(references),
    table('A violation is an object whose target is missing.', HEADINGS, rows),
  );
}

/** Empty columns, and so the defaults of all references, are not shown. */
const HEADINGS = ['Reference', 'From', 'To', 'On deletion', 'Guarantee', 'Violations'];

const byKinds = (a: KindReference, b: KindReference): number => (keyOf(a) < keyOf(b) ? -1 : 1);
const keyOf = ({ from, to, policy, reference }: KindReference): string =>
  [from, to, policy, reference].join(' ');
