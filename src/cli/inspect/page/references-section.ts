/** The section about references between kinds: a picture, and a table with the violations of each. */
import type { AdmissionPolicy, AdmissionPolicySpec } from '../../../api/admission-policy.ts';
import { html, type Html } from '../../../server/status-page/html.ts';
import { badge, nothing, section, table } from './parts.ts';
import { counted } from '../../../json/counted.ts';
import { groupResourceName } from '../../../json/kube-object.ts';

export function referencesSection(policies: readonly AdmissionPolicy[]): Html {
  const references = policies.flatMap(referencesOf).toSorted((a, b) => (keyOf(a) < keyOf(b) ? -1 : 1));
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

const HEADINGS = ['Reference', 'From', 'To', 'On deletion', 'Guarantee', 'Violations'];

const keyOf = ({ from, to, policy, reference }: KindReference): string =>
  [from, to, policy, reference].join(' ');

const ROW = 30;
const LANE = 22;
const MARGIN = 14;

/** The table is easier to read than a larger graph. */
const MOST_KINDS = 60;
const MOST_LANES = 8;

function referencesPicture(references: readonly KindReference[]): Html | undefined {
  const kinds = orderKinds(references);
  const arcs = placeArcs(references, kinds);
  const lanes = Math.max(0, ...arcs.map(({ lane }) => lane + 1));
  if (arcs.length === 0 || kinds.length > MOST_KINDS || lanes > MOST_LANES) return undefined;
  const left = MARGIN + lanes * LANE;
  return html`<figure>
    <figcaption id="references-caption">
      Each arrow leads from a kind to the kind that its objects reference. A number counts violations.
    </figcaption>
    <svg
      class="references"
      height="${kinds.length * ROW + 8}"
      role="img"
      aria-labelledby="references-caption"
    >
      ${arcs.map((arc) => drawArc(arc, left))}
      ${kinds.map(
        (kind, row) =>
          html`<circle class="kind" cx="${left}" cy="${middle(row)}" r="4" /><text
              x="${left + 10}"
              y="${middle(row) + 4}"
              >${kind}</text
            > `,
      )}
    </svg>
  </figure> `;
}

const middle = (row: number): number => row * ROW + ROW / 2 + 4;

function drawArc({ from, to, references, lane }: ReturnType<typeof placeArcs>[number], left: number): Html {
  const x = left - (lane + 1) * LANE + 6;
  const shift = from === to ? 8 : 0;
  const [begin, end] = [middle(from) - shift, middle(to) + shift];
  const violations = references.reduce((sum, one) => sum + (one.violations ?? 0), 0);
  const [first] = references;
  const title = `${first?.from ?? ''} to ${first?.to ?? ''}: ${counted(references.length, 'reference')}, ${counted(violations, 'violation')}`;
  const at = (begin + end) / 2;
  return html`<g class="${violations === 0 ? 'good' : 'warn'}"
    ><title>${title}</title><path class="arc" d="M${left - 4} ${begin}H${x}V${end}H${left - 6}" /><path
      class="tip"
      d="M${left - 11} ${end - 4}L${left - 4} ${end}L${left - 11} ${end + 4}z"
    />${
      violations === 0
        ? undefined
        : html`<rect
              class="count"
              x="${x - LANE / 2}"
              y="${at - 8}"
              width="${LANE - 2}"
              height="16"
              rx="4"
            /><text class="count" x="${x - 1}" y="${at + 4}" text-anchor="middle"
              >${violations > 99 ? '99+' : String(violations)}</text
            >`
    }</g
  > `;
}

/** A kind precedes its targets, except in cycles. */
function orderKinds(references: readonly KindReference[]): readonly string[] {
  const targets = Map.groupBy(references, ({ from }) => from);
  const ordered: string[] = [];
  const seen = new Set<string>();
  const visit = (kind: string): void => {
    if (seen.has(kind)) return;
    seen.add(kind);
    for (const { to } of targets.get(kind) ?? []) visit(to);
    ordered.push(kind);
  };
  for (const { from } of references.toReversed()) visit(from);
  return ordered.toReversed();
}

/** All references from one kind to another are one arc; arcs in the same lane do not touch. */
function placeArcs(references: readonly KindReference[], kinds: readonly string[]) {
  const pairs = Map.groupBy(references, ({ from, to }) => `${from} ${to}`);
  const arcs = [...pairs.values()].flatMap((same) => {
    const [first] = same;
    if (first === undefined) return [];
    return [{ from: kinds.indexOf(first.from), to: kinds.indexOf(first.to), references: same }];
  });
  const lanes: (readonly [low: number, high: number])[][] = [];
  return arcs
    .toSorted((a, b) => Math.abs(a.from - a.to) - Math.abs(b.from - b.to))
    .map((arc) => {
      const [low, high] = [Math.min(arc.from, arc.to), Math.max(arc.from, arc.to)];
      const free = lanes.findIndex((taken) => taken.every(([from, to]) => to < low || high < from));
      const lane = free < 0 ? lanes.length : free;
      (lanes[lane] ??= []).push([low, high]);
      return { ...arc, lane };
    });
}

type KindReference = ReturnType<typeof referencesOf>[number];

function referencesOf({ metadata, spec: newest, status }: AdmissionPolicy) {
  // The API server has validated status.inForce against the schema of the policy.
  const spec = (status?.inForce?.spec as AdmissionPolicySpec | undefined) ?? newest;
  return (spec.validate?.references ?? []).flatMap(
    ({ name, path, target, onTargetDelete = 'Allow', guarantee = 'BestEffort' }) =>
      spec.match.apiGroups.flatMap((group) =>
        spec.match.resources.map((resource) => ({
          policy: metadata.name ?? '',
          reference: name,
          path,
          onTargetDelete,
          guarantee,
          from: groupResourceName({ group, resource }),
          to: groupResourceName({ group: target.apiGroup, resource: target.resource }),
          violations: status?.violations?.byReference?.[name],
        })),
      ),
  );
}
