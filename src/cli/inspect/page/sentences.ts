/** One sentence about each part of the report, for the tiles of the status page. */
import { counted } from '../../../json/counted.ts';
import type { StatusReport } from '../status/report/status-report.ts';
import { CERT_TONES } from '../status/cells.ts';
import { relative } from '../status/time-line.ts';

export function authoritySentence({ authority: { generations } }: StatusReport, now: Date): string {
  const active = generations.find(({ state }) => state === 'active') ?? generations[0];
  if (active === undefined) return 'No certificate authority was found';
  return `The CA ${active.expired ? 'expired' : 'is valid and expires'} ${relative(active.notAfter, now)}`;
}

export function certsSentence({ servingCerts: { items } }: StatusReport): string {
  const bad = items.filter(({ state }) => CERT_TONES[state] === 'bad').length;
  const due = items.filter(({ state }) => state === 'RenewalDue').length;
  if (bad > 0)
    return `${bad} of ${counted(items.length, 'certificate')} ${bad === 1 ? 'needs' : 'need'} attention`;
  return allOrSome(items.length, 'certificate', 'valid', due === 0 ? '' : `, ${due} due for renewal`);
}

export function targetsSentence({ injectionTargets: { items } }: StatusReport): string {
  const stale = items.filter(({ state }) => state === 'Stale' || state === 'Invalid').length;
  if (stale > 0)
    return `${stale} of ${counted(items.length, 'CA bundle')} ${stale === 1 ? 'is' : 'are'} not current`;
  return allOrSome(items.length, 'CA bundle', 'current');
}

export function policiesSentence({ admissionPolicies: { items } }: StatusReport): string {
  const broken = items.filter(({ ready }) => ready !== 'True').length;
  const violations = items.reduce((sum, item) => sum + (item.violations ?? 0), 0);
  const found = violations === 0 ? '' : `, with ${counted(violations, 'violation')}`;
  if (broken > 0)
    return `${broken} of ${counted(items.length, 'policy')} ${broken === 1 ? 'is' : 'are'} not in force${found}`;
  return allOrSome(items.length, 'policy', 'in force', found);
}

export function windowsSentence({ restoreWindows: { items, total }, attention }: StatusReport): string {
  const wrong = attention.filter(({ part }) => part === 'restoreWindows').length;
  if (wrong > 0)
    return `${wrong} of ${counted(total, 'restore window')} ${wrong === 1 ? 'needs' : 'need'} attention`;
  if (total === 0) return 'No restore windows';
  const open = items.filter(({ phase }) => phase === 'Open').length;
  return `${counted(total, 'restore window')}, ${open === 0 ? 'none' : open} open`;
}

export function leaderSentence({ leader: { state, replicas } }: StatusReport): string {
  const ready = replicas.filter((replica) => replica.ready).length;
  const pods = replicas.length === 0 ? '' : `, ${ready} of ${counted(replicas.length, 'replica')} ready`;
  switch (state) {
    case 'Held':
      return `A leader is elected${pods}`;
    case 'Free':
    case 'Expired':
      return `No leader${pods}`;
    case 'Unknown':
      return 'The leader is unknown';
  }
}

function allOrSome(count: number, one: string, state: string, more = ''): string {
  if (count === 0) return `No ${counted(0, one).slice(2)}`;
  return `${counted(count, one)}, ${count === 1 ? '' : 'all '}${state}${more}`;
}
