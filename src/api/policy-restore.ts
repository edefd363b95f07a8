/** The settings of an AdmissionPolicy for restores: deferred checks, and recorded owner references. */
import { principal } from './principals.ts';
import { array, boolean, object, oneOf, string } from './schema.ts';

export const policyRestore = object('Behaviour while a backup is restored.', {
  'references?': oneOf(
    'Whether a restorer may create objects with missing reference targets while a RestoreWindow is open.',
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
    'The same for rules that read only the object, not the rest of the request.',
    ['Defer', 'Enforce'],
    { default: 'Enforce' },
  ),
  'onTargetDelete?': oneOf(
    'Whether a restorer may delete objects that are still referenced. Default: only if the window includes the operation DELETE.',
    ['Defer', 'Enforce'],
  ),
  'immutable?': oneOf(
    'Whether a restorer may change immutable fields. A sweep cannot check this: with Skip, only the audit log shows it.',
    ['Skip', 'Enforce'],
    { default: 'Enforce' },
  ),
  'mutations?': oneOf(
    'Whether mutations apply to writes of a restorer. Defaults always apply.',
    ['Apply', 'Skip'],
    { default: 'Skip' },
  ),
});

export const policyOwners = object('Owner references of the governed objects.', {
  'preserve?': boolean(
    'Whether Gatehouse records owner references in the annotation gatehouse.dev/owner-references, to link them again ' +
      'after a restore that removes them.',
    { default: false },
  ),
});

export const initiallyDeferred = object(
  'Deferred checks of references outside restores, like DEFERRABLE INITIALLY DEFERRED in SQL.',
  {
    principals: array(
      'Users who may write an object before its reference targets at any time, e.g. a GitOps controller.',
      principal,
      { minItems: 1, maxItems: 32 },
    ),
    'grace?': string(
      'How long after its creation an object may have missing targets before they are reported, as a Go duration.',
      { pattern: '^([0-9]+(h|m|s))+$', default: '5m' },
    ),
  },
);
