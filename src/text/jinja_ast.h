/* text/jinja_ast.h - a template as a tree
 *
 * One struct for all nodes, with children in fixed places, so that walks that
 * do not care about the kind are one loop. Made by jinja_parse.c, completed by
 * jinja_scope.c (scope, up, slot), read by jinja_eval.c; never changed after.
 */
#ifndef SL_TEXT_JINJA_AST_H
#define SL_TEXT_JINJA_AST_H

#include "text/jinja_value.h"

enum sl_jnode_kind {
    /*                   name    children */
    SL_JN_TEMPLATE,    /*         x body */
    SL_JN_DATA,        /* lit */
    SL_JN_OUTPUT,      /*         x expressions */
    SL_JN_FOR,         /*         a target, b in, c if, x body, y else */
    SL_JN_IF,          /*         a test, x body, y elifs (IF), z else */
    SL_JN_SET,         /*         a target, b value */
    SL_JN_SETBLOCK,    /*         a target, b filter, x body */
    SL_JN_MACRO,       /* name    x params, y defaults of the last, z body */
    SL_JN_CALLBLOCK,   /*         a call, x, y, z as MACRO */
    SL_JN_GENERATION,  /*         z body */
    SL_JN_FILTERBLOCK, /*        b filter, x body */
    SL_JN_WITH,        /*         x targets, y values, z body */
    SL_JN_BREAK,
    SL_JN_CONTINUE,
    SL_JN_LIT,     /* lit */
    SL_JN_NAME,    /* name       op: what is done to it, see below */
    SL_JN_NSREF,   /* name (variable), attr: a target */
    SL_JN_LIST,    /*            x */
    SL_JN_TUPLE,   /*            x */
    SL_JN_DICT,    /*            x keys, y values */
    SL_JN_COND,    /*            a test, b then, c else or NULL */
    SL_JN_OR,      /*            a, b */
    SL_JN_AND,     /*            a, b */
    SL_JN_NOT,     /*            a */
    SL_JN_COMPARE, /*            a, x operands */
    SL_JN_OPERAND, /* op         a */
    SL_JN_BINARY,  /* op         a, b */
    SL_JN_NEG,     /*            a */
    SL_JN_POS,     /*            a */
    SL_JN_CONCAT,  /*            x */
    SL_JN_ATTR,    /* name       a */
    SL_JN_ITEM,    /*            a, b */
    SL_JN_SLICE,   /*            a, b, c: only as b of ITEM */
    SL_JN_CALL,    /*            a callee, x args, y keywords, b *, c ** */
    SL_JN_FILTER,  /* name       as CALL; a may be NULL in blocks */
    SL_JN_TEST,    /* name       as CALL */
    SL_JN_KEYWORD, /* name       a */
};

/* An operator of one or two characters as one number. */
#define SL_JOP(a, b) ((unsigned char)(a) << 8 | (unsigned char)(b))

/* op of a NAME. */
enum { SL_JNAME_LOAD, SL_JNAME_STORE, SL_JNAME_PARAM };

/* out_slot of a loop that never mentions `loop`. */
#define SL_JINJA_NO_SLOT UINT32_MAX

struct sl_jnode;

struct sl_jnodes {
    struct sl_jnode **p;
    size_t n, cap;
};

struct sl_jscope;

struct sl_jnode {
    enum sl_jnode_kind kind;
    int op;
    uint32_t at; /* offset in the source */
    const struct sl_jstr *name, *attr;
    struct sl_jval lit;
    struct sl_jnode *a, *b, *c;
    struct sl_jnodes x, y, z;
    int fn;                   /* number of a filter or test */
    uint32_t up, slot;        /* of NAME and NSREF: frames outward, and place */
    uint32_t out_slot;        /* of MACRO: its name; of FOR: 'loop', or none */
    struct sl_jscope *scope;  /* of what opens one: its body */
    struct sl_jscope *scope2; /* of FOR: its else */
    struct sl_jscope *scope3; /* of FOR: its test */
    bool uses_caller, uses_kwargs, uses_varargs; /* MACRO, CALLBLOCK */
};

/* How a frame's place gets its first value. */
enum sl_jload {
    SL_JLOAD_PARAM,   /* whoever enters the scope writes it */
    SL_JLOAD_RESOLVE, /* from what the caller passed, else a global */
    SL_JLOAD_ALIAS,   /* from an outer frame */
    SL_JLOAD_MISSING,
};

struct sl_jsym {
    const struct sl_jstr *name;
    enum sl_jload load;
    uint32_t up, slot; /* of an alias, counted from this scope */
    bool stored;       /* only while scopes are made */
};

struct sl_jscope {
    const struct sl_jscope *outer;
    struct sl_jsym *sym;
    size_t n, cap;
    bool keeps_frame; /* a macro in it may outlive one pass of a loop */
};

#endif
