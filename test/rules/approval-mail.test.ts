import { describe, expect, test } from '@jest/globals';
import { decisionPage, type DecisionView } from '../../gateway/http/decision-page.ts';
import {
  renderApprovalMail,
  type ApprovalFacts,
} from '../../services/notifier/rules/approval-mail.ts';
import { chatMessage } from '../../services/notifier/rules/chat-message.ts';
import type { ApprovalNotice } from '../../services/notifier/rules/notice-words.ts';
import { slackMessage } from '../../services/notifier/rules/slack-message.ts';
import { teamsMessage } from '../../services/notifier/rules/teams-card.ts';
import type { NoticeType } from '../../shared/contracts/notifier.ts';
import fc, { runs } from '../support/properties.ts';

const types: NoticeType[] = [
  'approval.requested',
  'approval.escalated',
  'approval.decided',
  'approval.expired',
  'approval.exhausted',
  'approval.withdrawn',
];
const approval: ApprovalFacts = {
  id: 'apr_1',
  action: 'scale_min_instances',
  risk_level: 'high',
  title: 'Scale checkout to 12',
  description: 'Load has doubled.\n  p99 is 900 ms.',
  resource: 'checkout',
  cost_impact: 42.5,
  hop: 1,
  max_hops: 2,
  current_group: 'sre',
  requested_by: { id: 'autoscaler' },
  expires_at: '2026-01-01T13:00:00.000Z',
  decision: null,
};
const decided: ApprovalFacts = {
  ...approval,
  decision: { decision: 'deny', by: 'ann@example.com', comment: 'Not\non Friday.' },
};
const decidedByName: ApprovalFacts = {
  ...approval,
  decision: { decision: 'approve', by: 'e1d8', name: 'Ann Lee', comment: null },
};
const links = {
  approve_url: 'https://strata.example/approvals/decision?token=a&x=1',
  deny_url: 'https://strata.example/approvals/decision?token=d',
};

test('a mail says who decided by name', () => {
  const { text } = renderApprovalMail('approval.decided', decidedByName);
  expect(text).toContain('Approved by Ann Lee:');
  expect(text).toContain('Decided by: Ann Lee');
  expect(text).not.toContain('e1d8');
});

test('a mail says once when it ends, and of what has ended nothing', () => {
  const silence = 'At 2026-01-01 12:30 UTC it expires, which is no approval.';
  const what_happens = { approve: 'It is granted.', deny: 'It is refused.', silence };
  const { text } = renderApprovalMail('approval.requested', { ...approval, what_happens });
  expect(text).toContain(silence);
  expect(text).not.toContain('13:00');
  expect(renderApprovalMail('approval.exhausted', approval).text).not.toContain('13:00');
});

test('a text in what is approved turns nothing around of the rest, wherever people read it', () => {
  const turned = { ...approval, resource: { note: '\u202E\u2066', instances: 12 } };
  const notice = { type: 'approval.requested', data: { ...turned, approval_id: '1' } } as const;
  const view = {
    ...turned,
    state: 'pending',
    tenant_name: 'Acme',
    metadata: null,
    required: 1,
    approved_by: [],
    requested_by: { id: '1', name: 'Ann', api_key: null },
  };
  const { text, html } = renderApprovalMail('approval.requested', turned);
  const shown = [
    text,
    html,
    chatMessage(notice, []).text,
    ...[slackMessage(notice, undefined), teamsMessage(notice, undefined)].map((message) =>
      JSON.stringify(message),
    ),
    decisionPage(view as unknown as DecisionView),
  ];
  for (const each of shown) {
    expect(each).toContain(String.raw`\u202e`);
    expect(each).not.toMatch(/[\u202a-\u202e\u2066-\u2069]/);
  }
});

describe('each notice', () => {
  test.each<[NoticeType, string, string]>([
    [
      'approval.requested',
      'Approval needed: Scale checkout to 12',
      'You are asked to approve or deny:',
    ],
    [
      'approval.escalated',
      'Still needs approval: Scale checkout to 12',
      'No one has decided yet (escalation 1 of 2). You are asked to approve or deny:',
    ],
    ['approval.decided', 'Denied: Scale checkout to 12', 'Denied by ann@example.com:'],
    [
      'approval.expired',
      'Expired: Scale checkout to 12',
      'The time to decide has run out. Not approved:',
    ],
    [
      'approval.exhausted',
      'No one decided: Scale checkout to 12',
      'Everybody has been asked and no one decided. Not approved:',
    ],
    [
      'approval.withdrawn',
      'Withdrawn: Scale checkout to 12',
      'No one needs this approval any more. Nothing is asked of you:',
    ],
  ])('%s says what it is about in both parts', (type, subject, says) => {
    const mail = renderApprovalMail(type, type === 'approval.decided' ? decided : approval);
    expect(mail.subject).toBe(subject);
    for (const part of [mail.text, mail.html]) {
      for (const said of [
        says,
        'Scale checkout to 12',
        'scale_min_instances',
        'high',
        'checkout',
        '42.5',
        'autoscaler',
        'sre',
        'apr_1',
        'p99 is 900 ms.',
      ])
        expect(part).toContain(said);
    }
  });

  test('as text', () => {
    expect(renderApprovalMail('approval.requested', approval, { links }).text)
      .toBe(`You are asked to approve or deny:

Title: Scale checkout to 12
Action: scale_min_instances
Risk: high
Resource: checkout
Cost impact: 42.5
Asked by: autoscaler
Group: sre
Decide before: 2026-01-01 13:00 UTC
Approval: apr_1

> Load has doubled.
>   p99 is 900 ms.

Approve: https://strata.example/approvals/decision?token=a&x=1
Deny: https://strata.example/approvals/decision?token=d

These links are yours alone: anyone who has them can decide.
`);
    expect(
      renderApprovalMail('approval.decided', {
        ...decided,
        resource: { kind: 'service', id: 7 },
        description: null,
        cost_impact: null,
        current_group: null,
      }).text,
    ).toBe(`Denied by ann@example.com:

Title: Scale checkout to 12
Action: scale_min_instances
Risk: high
Resource: {"kind":"service","id":7}
Asked by: autoscaler
Outcome: Denied
Decided by: ann@example.com
Comment: Not on Friday.
Approval: apr_1
`);
  });

  test.each(types)('%s carries links only where it asks', (type) => {
    const { text, html } = renderApprovalMail(type, decided, { links });
    const asks = type === 'approval.requested' || type === 'approval.escalated';
    expect(text.includes(`Approve: ${links.approve_url}\nDeny: ${links.deny_url}`)).toBe(asks);
    expect(html.includes('href="https://strata.example/approvals/decision?token=a&amp;x=1"')).toBe(
      asks,
    );
    expect(html.includes(`href="${links.deny_url}"`)).toBe(asks);
    const without = renderApprovalMail(type, decided);
    expect(`${without.text}${without.html}`).not.toMatch(/href|https?:/);
  });
});

test('it says who asked, with which key, and who has approved so far where it takes several', () => {
  const asked: ApprovalFacts = {
    ...approval,
    requested_by: { id: 'u1', name: 'deploy', api_key: { name: 'ci' } },
    policy: { required: 3 },
    approved_by: [{ name: 'Ann' }, { name: 'Bob' }],
  };
  const { text } = renderApprovalMail('approval.escalated', asked, { links });
  expect(text).toContain('Asked by: deploy (API key ci)\n');
  expect(text).toContain('Approved so far: 2 of 3: Ann, Bob\n');
  expect(renderApprovalMail('approval.requested', approval).text).not.toContain('so far');
});

describe('what a tenant changes', () => {
  const render = (
    type: NoticeType,
    overrides: NonNullable<Parameters<typeof renderApprovalMail>[2]>['overrides'],
    facts = approval,
  ) => renderApprovalMail(type, facts, { overrides });

  test.each<[NoticeType, string]>([
    ['approval.requested', 'approval_request'],
    ['approval.escalated', 'approval_escalated'],
    ['approval.decided', 'approval_decided'],
    ['approval.expired', 'approval_expired'],
    ['approval.exhausted', 'approval_exhausted'],
    ['approval.withdrawn', 'approval_withdrawn'],
  ])('%s is changed under the name %s, and no other is', (type, template) => {
    for (const each of types) {
      const { subject, text, html } = render(each, {
        [template]: { subject: 'Ours', branding: 'ACME <ops>' },
      });
      expect(subject === 'Ours').toBe(each === type);
      expect(text.startsWith('ACME <ops>\n\n')).toBe(each === type);
      expect(html.includes('ACME &lt;ops&gt;')).toBe(each === type);
    }
  });

  test('placeholders are filled once; unknown ones stay', () => {
    const subject =
      '[{risk_level}] {title} for {current_group} by {requested_by} {id} {hop}/{max_hops} {unknown} {constructor} {{action}} {title';
    expect(
      render(
        'approval.requested',
        { approval_request: { subject } },
        { ...approval, title: 'T {id}' },
      ).subject,
    ).toBe(
      '[high] T {id} for sre by autoscaler apr_1 1/2 {unknown} {constructor} {scale_min_instances} {title',
    );
  });

  test('parts of the branding have their places', () => {
    const branding = {
      name: 'ACME {risk_level}',
      color: '#00AA11',
      logo_url: 'https://acme.example/l.png?a&b',
      footer: 'Bye "all"',
      support: 'help@acme.example',
    };
    const { text, html } = render('approval.requested', { approval_request: { branding } });
    expect(text.startsWith('ACME high\n\nYou are asked')).toBe(true);
    expect(text.endsWith('\n\nBye "all"\nhelp@acme.example\n')).toBe(true);
    for (const part of [
      'color:#00AA11',
      '<img src="https://acme.example/l.png?a&amp;b"',
      '>ACME high</p>',
      '>Bye &quot;all&quot;</p>',
      '>help@acme.example</p>',
    ])
      expect(html).toContain(part);
  });

  test('no branding makes a mail many times as long as what it tells of', () => {
    const branding = Object.fromEntries(
      Array.from({ length: 1000 }, (_each, index) => [`p${index}`, '{resource}'.repeat(30)]),
    );
    const large = { ...approval, resource: { note: 'n'.repeat(30_000) } };
    const { text, html } = render('approval.requested', { approval_request: { branding } }, large);
    expect(text).toContain('n'.repeat(30_000));
    expect(text.length + html.length).toBeLessThan(1_000_000);
  });

  test('a color or a logo that could be something else is not used', () => {
    const { html } = render('approval.requested', {
      approval_request: {
        branding: { name: 'A', color: 'red;background:url(//x)', logo_url: 'javascript:alert(1)' },
      },
    });
    expect(html).not.toMatch(/background:url|javascript|<img/);
  });

  test('an override that is inherited is none', () => {
    expect(
      render(
        'approval.requested',
        Object.create({ approval_request: { subject: 'inherited' } }) as Record<string, never>,
      ).subject,
    ).toContain('Approval needed');
  });
});

describe('hostile values', () => {
  const texts = fc.oneof(
    fc.string({ unit: 'binary' }),
    fc.constantFrom(
      '<script>alert(1)</script>',
      '"><img src=x onerror=alert(1)>',
      "' onload='x",
      '&lt;b&gt;',
      'a\r\nBcc: eve@example.com',
      'x\n\nApprove: https://evil.example/',
      '\u2028Deny: https://evil.example',
      '{title}{approve_url}',
      '$&$1',
      '</blockquote></body>',
    ),
  );
  const facts = fc.record({
    id: texts,
    action: texts,
    risk_level: texts,
    title: texts,
    description: texts,
    resource: fc.oneof(texts, fc.dictionary(texts, texts)),
    cost_impact: fc.double(),
    hop: fc.nat(),
    max_hops: fc.nat(),
    current_group: texts,
    requested_by: fc.record({ id: texts }),
    expires_at: fc.constant(approval.expires_at),
    decision: fc.option(
      fc.record({
        decision: fc.constantFrom('approve' as const, 'deny' as const),
        by: texts,
        comment: texts,
      }),
    ),
  });
  const tagsOf = (html: string): string[] => html.match(/<[^>]*>/g) ?? [];
  const known = new Set(
    types.flatMap((type) =>
      [approval, decided].flatMap((each) => tagsOf(renderApprovalMail(type, each, { links }).html)),
    ),
  );

  test('never add a header, a line or a tag', () => {
    fc.assert(
      fc.property(fc.constantFrom(...types), facts, (type, hostile) => {
        const mail = renderApprovalMail(type, hostile, { links });
        expect(mail.subject).not.toMatch(/[\p{Cc}\u2028\u2029]/u);
        expect(tagsOf(mail.html).filter((tag) => !known.has(tag))).toEqual([]);
        const asks = type === 'approval.requested' || type === 'approval.escalated';
        const offers = mail.text
          .split(/[\n\r\u0085\u2028\u2029]/)
          .filter((line) => /^\s*(Approve|Deny): /.test(line));
        expect(offers).toEqual(
          asks ? [`Approve: ${links.approve_url}`, `Deny: ${links.deny_url}`] : [],
        );
      }),
      runs(150),
    );
  });
});

describe('a message in chat', () => {
  const said = (resource: ApprovalFacts['resource'], more: Partial<ApprovalNotice['data']> = {}) =>
    chatMessage(
      {
        type: 'approval.requested',
        data: { ...approval, approval_id: 'apr_1', resource, ...more },
      },
      [{ label: 'Open', url: 'https://strata.example/console' }],
    ).text;

  test('shows exactly what is approved', () => {
    const exactly = { resource: { name: 'db-7' }, parameters: { rows: 3, note: '<users/all>' } };
    expect(said(exactly)).toContain(
      '\nResource: {"resource":{"name":"db-7"},"parameters":{"rows":3,"note":"‹users/all›"}}\n',
    );
    expect(said('db-7\n*Approved*')).toContain('\nResource: db-7 *Approved*\n');
  });

  test('has no line of a request that looks like one of ours', () => {
    const forged = 'Fine.\n*Approved*\u2028by ada: go';
    const text = said(null, {
      title: 'Scale\u0085Resource: db-1',
      description: forged,
      decision: { decision: 'deny', by: 'ada', name: 'Ada', comment: forged },
    });
    expect(text.split(/[\n\r\u0085\u2028\u2029]/)).toEqual([
      '*Approval needed*',
      'Scale Resource: db-1',
      expect.stringMatching(/ · high risk/),
      expect.stringMatching(/^Cost impact: /),
      '› Fine.',
      '› *Approved*',
      '› by ada: go',
      'by Ada: Fine. *Approved* by ada: go',
      expect.stringMatching(/^Until /),
      '<https://strata.example/console|Open>',
    ]);
  });

  test('says where it cannot show all of it, and is as long as chat allows', () => {
    const large = { parameters: { text: 'x'.repeat(32_000) } };
    const text = said(large, { description: 'y'.repeat(10_000) });
    expect(text.length).toBeLessThanOrEqual(4096);
    expect(text).toContain('Not all of it fits here');
    expect(text).toContain('https://strata.example/console');
  });
});
