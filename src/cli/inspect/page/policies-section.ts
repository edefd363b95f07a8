/** AdmissionPolicies: in force or not, and how much of what is stored violates them. */
import { html, type Html } from '../../../server/status-page/html.ts';
import { relative } from '../status/format/span.ts';
import type { ConditionStatus, PolicyRow } from '../status/report/policies.ts';
import type { StatusReport } from '../status/report/status-report.ts';
import { badge, lines, nothing, section, table, unreadParts, type Tone } from './parts.ts';

const CONDITION_TONES: Readonly<Record<ConditionStatus, Tone>> = {
  True: 'good',
  False: 'bad',
  Unknown: 'warn',
};

export function policiesSection({ admissionPolicies }: StatusReport, now: Date): Html {
  const { unread, items } = admissionPolicies;
  const rows = items.map((policy) => {
    const { name, enforcement, ready, webhooksInstalled, message } = policy;
    return {
      cells: [
        name,
        badge(ready, CONDITION_TONES[ready]),
        badge(webhooksInstalled, CONDITION_TONES[webhooksInstalled]),
        enforcement,
        violationsOf(policy, now),
        message === undefined ? '' : html`<span>${lines(message)}</span>`,
      ],
      isProblem: message !== undefined,
    };
  });
  return section(
    'policies',
    html`Admission policies <span class="count">${items.length}</span>`,
    unreadParts(unread),
    rows.length === 0 && unread.length === 0 ? nothing('There is none.') : undefined,
    table(
      'Violations are counted among what is stored, hourly and when a policy changes',
      ['Policy', 'Ready', 'Installed', 'Enforcement', 'Violations', 'Why not'],
      rows,
    ),
  );
}

function violationsOf({ violations, checkedAt }: PolicyRow, now: Date): Html {
  if (violations === undefined) return html`<span>not counted yet</span>`;
  const when = checkedAt === undefined ? '' : ` ${relative(checkedAt, now)}`;
  return html`<span>${badge(String(violations), violations === 0 ? 'good' : 'warn')}${when}</span>`;
}
