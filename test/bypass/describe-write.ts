/** The readable form of a write. */
import { USERS } from './kinds.ts';
import type { Write } from './steps.ts';

/** Only what differs from the simplest write. */
export function describeWrite({
  via,
  kind,
  name,
  set,
  forged,
  padding,
  as,
  version,
  dryRun,
  bare,
}: Write): string {
  const target = via === 'deletecollection' ? kind : `${kind}/${name}`;
  const fields = set.map(([path, value]) => `${path.join('.')}=${JSON.stringify(value)}`);
  return [
    `${USERS[as]}: ${via} ${target}`,
    ...(fields.length > 0 ? [fields.join(', ')] : []),
    ...(forged.length > 0 ? [`forged ${forged.join(', ')}`] : []),
    ...(padding === 'none' ? [] : [`padded with ${padding}`]),
    ...(version === 'v1' ? [] : [`as ${version}`]),
    ...(dryRun ? ['dry run'] : []),
    ...(bare ? ['only these fields'] : []),
  ].join(', ');
}
