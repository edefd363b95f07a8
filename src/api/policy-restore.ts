/** What an AdmissionPolicy says about restores: which checks wait, and which owner references come back. */
import { principal } from './principals.ts';
import { array, boolean, object, oneOf, string } from './schema.ts';

export const policyRestore = object('What holds while a backup is being restored.', {
  'references?': oneOf(
    'Whether a restorer may create objects whose references have no target yet, while a RestoreWindow is open.',
    ['Defer', 'Enforce'],
    { default: 'Defer' },
  ),
  'unique?': oneOf(
    'Whether a restorer may create objects whose unique values another object holds, while a RestoreWindow is open.',
    ['Defer', 'Enforce'],
    { default: 'Defer' },
  ),
  'schema?': oneOf('The same for the schema: backups may be older than it.', ['Defer', 'Enforce'], {
    default: 'Enforce',
  }),
  'rules?': oneOf(
    'The same for rules that read nothing of the request but the object.',
    ['Defer', 'Enforce'],
    { default: 'Enforce' },
  ),
  'onTargetDelete?': oneOf(
    'Whether a restorer may delete what objects still name. Absent: where the window has the operation DELETE.',
    ['Defer', 'Enforce'],
  ),
  'immutable?': oneOf(
    'Whether a restorer may change immutable fields. That cannot be looked at again later: Skip is in the audit log only.',
    ['Skip', 'Enforce'],
    { default: 'Enforce' },
  ),
  'mutations?': oneOf(
    'Whether mutations change what a restorer writes. Defaults, which only fill, always do.',
    ['Apply', 'Skip'],
    { default: 'Skip' },
  ),
});

export const policyOwners = object('Owner references of the governed objects.', {
  'preserve?': boolean(
    'Whether owner references are recorded in the annotation gatehouse.dev/owner-references, so that they are linked again ' +
      'when a restore has stripped them.',
    { default: false },
  ),
});

export const initiallyDeferred = object(
  'References that are checked later, outside restores too, as with DEFERRABLE INITIALLY DEFERRED in SQL.',
  {
    principals: array(
      'Who may write an object before what it names, at any time: a GitOps controller, say.',
      principal,
      { minItems: 1, maxItems: 32 },
    ),
    'grace?': string(
      'How long after its creation an object may still name what is not there before that is reported. As Go writes durations.',
      { pattern: '^([0-9]+(h|m|s))+$', default: '5m' },
    ),
  },
);
